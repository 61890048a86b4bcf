//! Describes the machine and the versions of all tools of a run. Reads; changes nothing.

use std::process::Command;

use super::systems::Tools;
use crate::shell::{read_output, root};

const PYTHON_VERSIONS: &str = "import sys, sqlite3, importlib.metadata as m; \
    print(f'Python {sys.version.split()[0]} with SQLite {sqlite3.sqlite_version}'); \
    [print(n, m.version(n)) for n in ('langgraph', 'langgraph-checkpoint-sqlite', 'langgraph-checkpoint-postgres', 'psycopg')]";
const NODE_VERSIONS: &str = "const D = require('better-sqlite3'); \
    const s = new D(':memory:').prepare('SELECT sqlite_version() AS v').get().v; \
    console.log(`Node ${process.versions.node}\\nbetter-sqlite3 ${require('better-sqlite3/package.json').version} with SQLite ${s}`)";

/// One list entry for the machine and one for the versions.
pub(super) fn describe(tools: &Tools) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned());
    let memory = field("/proc/meminfo", "MemTotal")
        .and_then(|line| line.split(' ').next()?.parse::<f64>().ok())
        .map_or_else(|| "unknown".to_owned(), |kb| format!("{:.0} GB of memory", kb / 1e6));
    let kernel = output(Command::new("uname").arg("-sr"));
    let disk = output(Command::new("stat").args(["--file-system", "--format=%T"]).arg(root()));
    let mut versions = vec![
        output(Command::new("rustc").arg("--version")),
        output(Command::new(&tools.binary).arg("--version")),
        format!("SQLite {} in Rust", rusqlite::version()),
        output(Command::new("git").arg("--version")),
    ];
    if let Ok(python) = &tools.python {
        versions.push(output(Command::new(python.python()).args(["-c", PYTHON_VERSIONS])));
    }
    if let Ok(modules) = &tools.modules {
        versions.push(output(Command::new("node").env("NODE_PATH", modules).args(["-e", NODE_VERSIONS])));
    }
    if let Ok(cluster) = &tools.cluster
        && let Ok(version) = cluster.sql("postgres", "SHOW server_version")
    {
        versions.push(format!("PostgreSQL {}", version.split(' ').next().unwrap_or_default().trim()));
    }
    let mut missing = Vec::new();
    if let Err(why) = &tools.python {
        missing.push(format!("systems in Python: skipped: {why}"));
    }
    if let Err(why) = &tools.modules {
        missing.push(format!("systems in Node: skipped: {why}"));
    }
    if let Err(why) = &tools.cluster {
        missing.push(format!("systems on PostgreSQL: skipped: {why}"));
    }
    let versions: Vec<&str> =
        versions.iter().flat_map(|text| text.lines()).filter(|line| !line.is_empty()).collect();
    let mut text = format!("- Machine: {cores} cores ({model}), {memory}, {kernel}, file system {disk}.\n");
    text.push_str(&format!("- Versions: {}.\n", versions.join(", ")));
    text.push_str(
        "- Every save of every system is durable: SQLite in WAL mode with `synchronous = FULL`, PostgreSQL with `fsync`\n  \
         and `synchronous_commit`, JSON files with an fsync of the file and of the folder.\n\
         - Milepost also verifies checksums with every read. None of the other systems does, except git.\n",
    );
    for line in missing {
        text.push_str(&format!("- {line}\n"));
    }
    text
}

/// The value of the first line of a file that starts with a name.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start_matches([' ', '\t', ':']).trim().to_owned())
}

fn output(command: &mut Command) -> String {
    read_output(command).unwrap_or_else(|_| "unknown".to_owned()).trim().to_owned()
}
