//! The systems under test: their names, what each is compared with, what they need on this machine, and how their
//! workers are started.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use milepost_testkit::postgres::{ClusterOptions, PrivateCluster};

use super::worker::Worker;
use crate::bench::chart::Owner;
use crate::bench::measure::packaged_binary;
use crate::npm;
use crate::python::{self, Environment};
use crate::shell::{is_installed, read_output, root, target};

/// The version of better-sqlite3 that is compared.
const BETTER_SQLITE: &str = "better-sqlite3@12.11.1";
/// The folder of the programs that are written in other languages.
const PROGRAMS: &str = "xtask/peers";

/// A system whose worker stays alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    Floor,
    Milepost,
    MilepostFiles,
    PlainSqlite,
    BetterSqlite,
    JsonFiles,
    Saver,
    LangGraphSqlite,
    MilepostPostgres,
    SaverPostgres,
    LangGraphPostgres,
}

impl System {
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Milepost => "Milepost, SQLite",
            Self::MilepostFiles => "Milepost, files",
            Self::PlainSqlite => "plain SQLite, Rust",
            Self::BetterSqlite => "better-sqlite3, Node",
            Self::JsonFiles => "atomic JSON files, Node",
            Self::Saver => "MilepostSaver, SQLite",
            Self::LangGraphSqlite => "LangGraph SqliteSaver",
            Self::MilepostPostgres => "Milepost, PostgreSQL",
            Self::SaverPostgres => "MilepostSaver, PostgreSQL",
            Self::LangGraphPostgres => "LangGraph PostgresSaver",
        }
    }

    /// The form of Milepost with which a peer is compared: the one that is used in the same way.
    pub fn reference(self) -> Option<Self> {
        match self {
            Self::PlainSqlite | Self::BetterSqlite | Self::JsonFiles => Some(Self::Milepost),
            Self::LangGraphSqlite => Some(Self::Saver),
            Self::LangGraphPostgres => Some(Self::SaverPostgres),
            _ => None,
        }
    }

    pub fn owner(self) -> Owner {
        match self {
            Self::Floor => Owner::Floor,
            _ if self.reference().is_some() => Owner::Peer,
            _ => Owner::Milepost,
        }
    }

    fn is_on_server(self) -> bool {
        matches!(self, Self::MilepostPostgres | Self::SaverPostgres | Self::LangGraphPostgres)
    }

    fn is_python(self) -> bool {
        matches!(self, Self::Saver | Self::SaverPostgres | Self::LangGraphSqlite | Self::LangGraphPostgres)
    }

    fn is_node(self) -> bool {
        matches!(self, Self::BetterSqlite | Self::JsonFiles)
    }
}

/// Where a system keeps its data.
pub struct Place {
    /// What the worker opens.
    pub address: String,
    /// The folder of its files; on a server, the name of its database.
    data: Data,
}

impl Place {
    /// Whether the data is in a database on the server.
    pub fn is_database(&self) -> bool {
        matches!(self.data, Data::Database(_))
    }
}

enum Data {
    Folder(PathBuf),
    Database(String),
}

/// The programs on this machine that the comparison uses.
pub struct Tools {
    /// The packaged binary of Milepost.
    pub binary: PathBuf,
    pub python: Result<Environment, String>,
    /// The folder of installed packages for Node.
    pub modules: Result<PathBuf, String>,
    pub cluster: Result<PrivateCluster, String>,
    next: Cell<u32>,
}

impl Tools {
    /// Builds, installs and starts what is needed. The short form builds nothing in the release profile and downloads
    /// nothing.
    pub fn prepare(is_short: bool) -> Result<Self> {
        let binary = packaged_binary(is_short)?;
        let python = if is_short { python::existing_package() } else { python::install_package()? };
        let modules = better_sqlite(is_short);
        let cluster = crate::postgres::start(ClusterOptions::new())?;
        let tools = Self { binary, python, modules, cluster, next: Cell::new(0) };
        let missing = [
            ("Python", tools.python.as_ref().err()),
            ("Node", tools.modules.as_ref().err()),
            ("PostgreSQL", tools.cluster.as_ref().err()),
        ];
        for (what, why) in missing.iter().filter_map(|(what, why)| Some((what, (*why)?))) {
            println!("peers with {what}: skipped: {why}");
        }
        Ok(tools)
    }

    /// The systems of the list that can be measured on this machine.
    pub fn available(&self, systems: &[System]) -> Vec<System> {
        let has_tools = |system: &System| {
            (!system.is_python() || self.python.is_ok())
                && (!system.is_node() || self.modules.is_ok())
                && (!system.is_on_server() || self.cluster.is_ok())
        };
        systems.iter().copied().filter(has_tools).collect()
    }

    /// An empty place for a system: a folder of its own below `folder`, or a new database.
    pub fn place(&self, system: System, folder: &Path) -> Result<Place> {
        if system.is_on_server() {
            let cluster = self.cluster()?;
            let database = cluster.create_database()?;
            let address = cluster.url(&database);
            return Ok(Place { address, data: Data::Database(database) });
        }
        self.next.set(self.next.get() + 1);
        let folder = folder.join(format!("system-{}", self.next.get()));
        fs::create_dir_all(&folder)?;
        let file = |name: &str| folder.join(name).display().to_string();
        let address = match system {
            System::Milepost | System::Saver => format!("sqlite:{}", file("store.db")),
            System::MilepostFiles => format!("files:{}", file("store")),
            System::JsonFiles => file("checkpoints"),
            _ => file("store.db"),
        };
        Ok(Place { address, data: Data::Folder(folder) })
    }

    /// The size of the data: of all files, or of the database with its indexes.
    pub fn bytes(&self, place: &Place) -> Result<u64> {
        match &place.data {
            Data::Folder(folder) => folder_bytes(folder),
            Data::Database(name) => {
                let sql = format!("SELECT pg_database_size('{name}')");
                self.cluster()?.sql("postgres", &sql)?.trim().parse().context("no size")
            }
        }
    }

    /// Starts the worker of a system, without waiting for it.
    pub fn start(&self, system: System, place: &Place) -> Result<Worker> {
        let mut command = match system {
            System::BetterSqlite | System::JsonFiles => {
                let mut node = self.node("worker.js")?;
                node.arg(if system == System::JsonFiles { "json-files" } else { "better-sqlite3" });
                node
            }
            System::Saver | System::SaverPostgres => self.python_program("worker.py", "milepost")?,
            System::LangGraphSqlite => self.python_program("worker.py", "langgraph-sqlite")?,
            System::LangGraphPostgres => self.python_program("worker.py", "langgraph-postgres")?,
            _ => {
                let mut me = Command::new(std::env::current_exe()?);
                me.arg("peer-worker").arg(match system {
                    System::Floor => "floor",
                    System::PlainSqlite => "plain-sqlite",
                    _ => "milepost",
                });
                me
            }
        };
        Worker::start(system.name(), command.arg(&place.address))
    }

    /// Starts the workers of several systems, and waits until all have opened their stores.
    pub fn start_all(&self, systems: &[System], folder: &Path) -> Result<(Vec<Worker>, Vec<Place>)> {
        let places = systems.iter().map(|system| self.place(*system, folder)).collect::<Result<Vec<_>>>()?;
        let mut workers = Vec::new();
        for (system, place) in systems.iter().zip(&places) {
            let mut worker = self.start(*system, place)?;
            worker.wait_until_ready()?;
            workers.push(worker);
        }
        Ok((workers, places))
    }

    pub fn cluster(&self) -> Result<&PrivateCluster> {
        self.cluster.as_ref().map_err(|why| anyhow::anyhow!("{why}"))
    }

    /// A program in Node that finds the installed packages.
    pub fn node(&self, program: &str) -> Result<Command> {
        let modules = self.modules.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
        let mut command = Command::new("node");
        command.env("NODE_PATH", modules).arg(root().join(PROGRAMS).join(program));
        Ok(command)
    }

    /// A program in Python with its first argument.
    pub fn python_program(&self, program: &str, system: &str) -> Result<Command> {
        let environment = self.python.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
        let mut command = Command::new(environment.python());
        // The folder of the program is not searched for modules that it imports.
        command.arg("-P").arg(root().join(PROGRAMS).join(program)).arg(system);
        Ok(command)
    }
}

/// The size of all files in a folder.
pub fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        total += if about.is_dir() { folder_bytes(&entry.path())? } else { about.len() };
    }
    Ok(total)
}

/// Installs better-sqlite3, which is compiled with the headers of this machine's Node.
fn better_sqlite(is_short: bool) -> Result<PathBuf, String> {
    if !is_installed("node") || !is_installed("npm") {
        return Err("node or npm is not installed".to_owned());
    }
    let folder = target().map_err(|e| e.to_string())?.join("npm").join(BETTER_SQLITE.replace('@', "-"));
    if is_short && !folder.join("done").exists() {
        return Err("better-sqlite3 is not installed; the long form installs it".to_owned());
    }
    let mut ask = Command::new("node");
    let prefix = read_output(ask.args(["-p", "path.dirname(path.dirname(process.execPath))"]))
        .map_err(|e| e.to_string())?;
    npm::install_compiled(&folder, BETTER_SQLITE, Path::new(prefix.trim())).map_err(|e| format!("{e:#}"))
}
