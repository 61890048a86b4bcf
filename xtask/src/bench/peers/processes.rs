//! Measurements of whole processes: what a script, a hook or a person waits for that starts a program for each step.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::open_stores::{States, seconds};
use super::report::{Table, TableRow, Unit};
use super::space::GIT;
use super::systems::Tools;
use super::worker::Worker;
use crate::bench::chart::Owner;
use crate::bench::files::project::git;
use crate::bench::measure::{Floor, Sample, folder};
use crate::bench::process::run_successfully;

/// The name of the row of Milepost.
pub const MILEPOST: &str = "milepost";
const FLOOR: &str = "floor: a bare process";
/// The number of processes of a program in each of its turns. After a turn of a large program, the first process finds
/// the processor's caches cold.
const TURN: usize = 4;
const VERBS: [&str; 3] = ["save", "latest", "list of 50"];

/// A program that is started for each operation.
struct Program<'t> {
    name: &'static str,
    owner: Owner,
    kind: Kind,
    tools: &'t Tools,
    /// What the program opens.
    place: String,
    folder: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Milepost,
    Python(&'static str),
    Node(&'static str),
    Git,
    Bare,
}

impl Program<'_> {
    /// The processes of an operation. `input` is a file with the state to save.
    fn commands(&self, verb: &str, input: &Path) -> Result<Vec<Command>> {
        let mut commands = match self.kind {
            Kind::Bare => vec![Command::new("true")],
            Kind::Milepost => vec![self.milepost(verb, input)],
            Kind::Git => self.git(verb),
            Kind::Python(system) => {
                vec![self.script(self.tools.python_program("one_shot.py", system)?, verb, input)]
            }
            Kind::Node(system) => {
                let mut node = self.tools.node("one_shot.js")?;
                node.arg(system);
                vec![self.script(node, verb, input)]
            }
        };
        for command in &mut commands {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        Ok(commands)
    }

    fn milepost(&self, verb: &str, input: &Path) -> Command {
        let mut command = Command::new(&self.tools.binary);
        command.arg("-C").arg(&self.folder).args(["--store", &self.place]);
        // Keeps the trust records of temporary stores out of the user's state folder.
        command.env("XDG_STATE_HOME", &self.folder).env("XDG_CONFIG_HOME", &self.folder);
        match verb {
            "save" => command
                .args(["--profile", "pai", "save", "--run", "bench", "--no-capture", "--input"])
                .arg(input),
            "latest" => command.args(["show", "latest"]),
            _ => command.args(["list", "--limit", "50"]),
        };
        command
    }

    fn git(&self, verb: &str) -> Vec<Command> {
        let root = Path::new(&self.place);
        let mut command = git(root);
        match verb {
            "save" => {
                command.args(["add", "-A"]);
                let mut commit = git(root);
                commit.args(["commit", "-q", "-m", "step"]);
                return vec![command, commit];
            }
            "latest" => command.args(["show", "HEAD:state.json"]),
            _ => command.args(["log", "-50", "--format=%H %cI %s"]),
        };
        vec![command]
    }

    fn script(&self, mut command: Command, verb: &str, input: &Path) -> Command {
        command.arg(&self.place);
        match verb {
            "save" => command.arg("save").arg(input),
            "latest" => command.arg("latest"),
            _ => command.arg("list"),
        };
        command
    }

    /// A process of LangGraph's saver that stays alive.
    fn worker(&self) -> Result<Option<Worker>> {
        let Kind::Python(system @ ("langgraph-sqlite" | "langgraph-postgres")) = self.kind else {
            return Ok(None);
        };
        let mut command = self.tools.python_program("worker.py", system)?;
        let mut worker = Worker::start(self.name, command.arg(&self.place))?;
        worker.wait_until_ready()?;
        Ok(Some(worker))
    }

    /// Runs an operation and returns its time.
    fn run(&self, verb: &str, input: &Path) -> Result<Duration> {
        if self.kind == Kind::Git && verb == "save" {
            // The state is in the worktree before the save begins.
            fs::copy(input, Path::new(&self.place).join("state.json"))?;
        }
        let mut commands = self.commands(verb, input)?;
        let start = Instant::now();
        for command in &mut commands {
            run_successfully(command)?;
        }
        Ok(start.elapsed())
    }
}

/// The programs that this machine has, each with an empty place below `folder`.
fn programs<'t>(tools: &'t Tools, folder: &Path) -> Result<Vec<Program<'t>>> {
    let mut kinds = vec![(FLOOR, Owner::Floor, Kind::Bare), (MILEPOST, Owner::Milepost, Kind::Milepost)];
    if tools.python.is_ok() {
        kinds.push(("sqlite3 in a Python script", Owner::Peer, Kind::Python("plain-sqlite")));
        kinds.push(("LangGraph SqliteSaver", Owner::Peer, Kind::Python("langgraph-sqlite")));
        if tools.cluster.is_ok() {
            kinds.push(("LangGraph PostgresSaver", Owner::Peer, Kind::Python("langgraph-postgres")));
        }
    }
    if tools.modules.is_ok() {
        kinds.push(("better-sqlite3 in a Node script", Owner::Peer, Kind::Node("better-sqlite3")));
        kinds.push(("atomic JSON files in a Node script", Owner::Peer, Kind::Node("json-files")));
    }
    kinds.push((GIT, Owner::Peer, Kind::Git));
    let mut programs = Vec::new();
    for (n, (name, owner, kind)) in kinds.into_iter().enumerate() {
        let folder = folder.join(format!("program-{n}"));
        fs::create_dir_all(&folder)?;
        let file = |name: &str| folder.join(name).display().to_string();
        let place = match kind {
            Kind::Milepost => format!("sqlite:{}", file("store.db")),
            Kind::Python("langgraph-postgres") => {
                let cluster = tools.cluster()?;
                cluster.url(&cluster.create_database()?)
            }
            Kind::Git => file("worktree"),
            _ => file("store"),
        };
        if kind == Kind::Git {
            create_shadow(Path::new(&place), &folder.join("shadow"))?;
        }
        programs.push(Program { name, owner, kind, tools, place, folder });
    }
    Ok(programs)
}

/// A worktree whose repository is in another folder, and which syncs what it commits.
pub(super) fn create_shadow(root: &Path, repository: &Path) -> Result<()> {
    fs::create_dir_all(root)?;
    run_successfully(git(root).args(["init", "-q", "-b", "main", "--separate-git-dir"]).arg(repository))?;
    sync_commits(root)
}

/// Git syncs loose objects only if it is told to.
pub(super) fn sync_commits(root: &Path) -> Result<()> {
    run_successfully(git(root).args(["config", "core.fsync", "committed,reference"]))?;
    run_successfully(git(root).args(["config", "core.fsyncMethod", "batch"]))
}

/// Whole processes that save, read the newest state, and list 50 checkpoints.
pub fn whole(tools: &Tools, is_short: bool) -> Result<Table> {
    let folder = folder()?;
    let programs = programs(tools, folder.path())?;
    let mut table = Table::new(
        "Whole processes",
        "The median time of a process that saves a state of 4 KB, prints the newest state, or lists 50 checkpoints, \
         from its start to its end. This is what a script waits for that starts a program at each step. Milepost is the \
         packaged binary. The scripts are as short as they can be and do only this. The shadow repository runs \
         `git add -A && git commit`, `git show` and `git log -50` with one file. The floor is the process `true`, for a \
         save with one fdatasync. Each program is started four times in a row, then the next one. Every save is on disk when the process ends.",
    );
    table.chart = Some(("bench-processes.svg", "Bars: time of a whole process that saves, reads and lists"));
    table.columns = VERBS.map(|verb| (verb.to_owned(), Unit::Seconds)).into();
    let mut states = States::new(4096);
    let mut input = |n: usize| -> Result<PathBuf> {
        let path = folder.path().join(format!("input-{n}.json"));
        fs::write(&path, format!("{{\"state\":{}}}", states.next()))?;
        // Pending writes would delay every fsync.
        fs::File::open(&path)?.sync_all()?;
        Ok(path)
    };
    let (before, turns) = if is_short { (2, 1) } else { (50, 8) };
    // A process of LangGraph takes long, so its first checkpoints come from one process that stays alive.
    let mut workers = programs.iter().map(Program::worker).collect::<Result<Vec<_>>>()?;
    for n in 0..before {
        let input = input(n)?;
        let state = fs::read_to_string(&input)?;
        let state = state.trim_start_matches("{\"state\":").trim_end_matches('}');
        for (program, worker) in programs.iter().zip(&mut workers) {
            match worker {
                Some(worker) => worker.save("bench", state).map(drop)?,
                None => program.run("save", &input).map(drop)?,
            }
        }
    }
    for worker in workers.into_iter().flatten() {
        worker.close()?;
    }
    let mut floor = Floor::new(folder.path())?;
    let mut samples = vec![vec![Sample::default(); programs.len()]; VERBS.len()];
    for turn in 0..turns {
        let inputs = (0..TURN).map(|n| input(before + turn * TURN + n)).collect::<Result<Vec<_>>>()?;
        for (verb, samples) in VERBS.iter().zip(&mut samples) {
            for n in 0..programs.len() {
                let which = (n + turn) % programs.len();
                for input in &inputs {
                    let mut time = programs[which].run(verb, input)?;
                    if programs[which].kind == Kind::Bare && *verb == "save" {
                        let start = Instant::now();
                        floor.write(&[b'x'; 4096])?;
                        time += start.elapsed();
                    }
                    samples[which].add(time);
                }
            }
        }
    }
    for (n, program) in programs.iter().enumerate() {
        let reference = match program.owner {
            Owner::Floor => None,
            Owner::Milepost => Some(FLOOR.to_owned()),
            Owner::Peer => Some(MILEPOST.to_owned()),
        };
        let cells = samples.iter().map(|samples| seconds(&samples[n])).collect();
        let name = program.name.to_owned();
        table.rows.push(TableRow { name, owner: program.owner, reference, cells, note: None });
    }
    Ok(table)
}
