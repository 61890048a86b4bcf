//! The workers written in Rust: Milepost through its library, a plain table in SQLite, and the floor of a save.
//! Runs in a child process: `xtask peer-worker SYSTEM PLACE`.

use std::fs::File;
use std::io::{BufRead, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use milepost::internal::model::KeepCount;
use milepost::model::{Profile, RunId};
use milepost::store::{Maintenance, OpenOptions};
use milepost::{ListQuery, Milepost, PruneOptions, Reference, Save, Settings};
use serde::Deserialize;

use super::worker::Reply;
use crate::large_store::append_checkpoints;

/// A command of the parent.
#[derive(Deserialize)]
struct Request {
    #[serde(rename = "do")]
    verb: String,
    #[serde(default)]
    run: Option<String>,
    #[serde(default)]
    state: String,
    #[serde(default)]
    states: Vec<String>,
    #[serde(default)]
    count: Option<usize>,
    #[serde(default)]
    limit: usize,
    #[serde(default)]
    ms: Option<u64>,
}

/// What a worker can do. Every method measures only the operation.
trait System {
    fn save(&mut self, run: &str, state: &str) -> Result<Duration>;
    /// The time, and the length of the state.
    fn latest(&mut self, run: &str) -> Result<(Duration, usize)>;
    /// The time, and the number of checkpoints.
    fn list(&mut self, run: &str, limit: usize) -> Result<(Duration, usize)>;
    fn fill(&mut self, run: &str, count: usize, state: &str) -> Result<()>;
    fn keep(&mut self, run: &str, count: usize) -> Result<()>;
    fn close(&mut self) -> Result<()>;
}

/// The entry point of the child process.
pub fn run(system: &str, place: &str) -> Result<()> {
    let mut system: Box<dyn System> = match system {
        "milepost" => Box::new(MilepostStore::open(place)?),
        "plain-sqlite" => Box::new(PlainSqlite::open(place)?),
        "floor" => Box::new(FloorFile::create(Path::new(place))?),
        other => bail!("unknown system {other}"),
    };
    let answer = |reply: &Reply| -> Result<()> {
        println!("{}", serde_json::to_string(reply)?);
        Ok(std::io::stdout().flush()?)
    };
    answer(&Reply::default())?;
    for line in std::io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?)?;
        answer(&execute(system.as_mut(), &request)?)?;
    }
    Ok(())
}

fn execute(system: &mut dyn System, request: &Request) -> Result<Reply> {
    let run = request.run.as_deref().unwrap_or("bench");
    let count = request.count.unwrap_or_default();
    Ok(match request.verb.as_str() {
        "save" => Reply { times: vec![nanos(system.save(run, &request.state)?)], ..Reply::default() },
        "latest" => reads(count, || system.latest(run))?,
        "list" => reads(count, || system.list(run, request.limit))?,
        "fill" => {
            system.fill(run, count, &request.state)?;
            Reply::default()
        }
        "keep" => {
            system.keep(run, count)?;
            Reply::default()
        }
        "repeat" => repeat(system, run, request)?,
        "close" => {
            system.close()?;
            Reply::default()
        }
        other => bail!("unknown command {other}"),
    })
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// Reads some times.
fn reads(times: usize, mut read: impl FnMut() -> Result<(Duration, usize)>) -> Result<Reply> {
    let mut reply = Reply::default();
    for _ in 0..times {
        let (time, count) = read()?;
        reply.times.push(nanos(time));
        reply.count = count;
    }
    Ok(reply)
}

/// Saves the given states in turn, for some time or a number of times.
fn repeat(system: &mut dyn System, run: &str, request: &Request) -> Result<Reply> {
    let time = request.ms.map_or(Duration::MAX, Duration::from_millis);
    let count = request.count.unwrap_or(usize::MAX);
    let (start, mut reply) = (Instant::now(), Reply::default());
    while start.elapsed() < time && reply.times.len() < count {
        let state = &request.states[reply.times.len() % request.states.len()];
        reply.times.push(nanos(system.save(run, state)?));
    }
    Ok(reply)
}

/// A store of Milepost, by its address.
struct MilepostStore {
    engine: Option<Milepost>,
    /// The number of checkpoints that `fill` has added, for their ids.
    filled: usize,
}

impl MilepostStore {
    fn open(url: &str) -> Result<Self> {
        milepost_postgres::register(milepost_postgres::connection::Environment::new());
        let engine = Milepost::at(&url.parse()?, &OpenOptions::new().create(true))?;
        let settings = Settings::default().keep_last(KeepCount::All);
        Ok(Self { engine: Some(engine.with_settings(settings)), filled: 0 })
    }

    fn engine(&self) -> Result<&Milepost> {
        self.engine.as_ref().context("the store was closed")
    }
}

impl System for MilepostStore {
    fn save(&mut self, run: &str, state: &str) -> Result<Duration> {
        let run: RunId = run.parse()?;
        let save = Save::new().profile(Profile::Pai).summary("step").state_text(state)?;
        let engine = self.engine()?;
        let start = Instant::now();
        engine.save(&run, save)?;
        Ok(start.elapsed())
    }

    fn latest(&mut self, run: &str) -> Result<(Duration, usize)> {
        let run: RunId = run.parse()?;
        let engine = self.engine()?;
        let start = Instant::now();
        let state = engine.state(&Reference::Latest(0), Some(&run))?;
        Ok((start.elapsed(), state.state().get().len()))
    }

    fn list(&mut self, run: &str, limit: usize) -> Result<(Duration, usize)> {
        let query = ListQuery::default().run(run.parse::<RunId>()?).limit(limit);
        let engine = self.engine()?;
        let start = Instant::now();
        let listed = engine.list(&query)?;
        Ok((start.elapsed(), listed.checkpoints.len()))
    }

    fn fill(&mut self, run: &str, count: usize, state: &str) -> Result<()> {
        self.save(run, state)?;
        let run: RunId = run.parse()?;
        let body = self.engine()?.show(&Reference::Latest(0), Some(&run))?.body()?;
        let first = self.filled;
        append_checkpoints(
            self.engine()?,
            &run,
            Profile::Pai,
            body.created_at,
            count.saturating_sub(1) as u64,
            |n| {
                let mut body = body.clone();
                body.snapshot_id = format!("cp_fill_{:09}", first + n as usize).parse()?;
                Ok(body)
            },
        )?;
        self.filled += count;
        Ok(())
    }

    fn keep(&mut self, _run: &str, count: usize) -> Result<()> {
        let engine = self.engine.take().context("the store was closed")?;
        let engine = engine.with_settings(Settings::default().keep_last(KeepCount::Last(count as u64)));
        let report = engine.prune(&PruneOptions::default(), &mut |_| {})?;
        ensure!(report.failed().is_empty(), "prune failed");
        self.engine = Some(engine);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let engine = self.engine.take().context("the store was closed")?;
        engine.raw_store().maintain(Maintenance::Compact)?;
        Ok(())
    }
}

/// One table of documents in SQLite: what people write first.
struct PlainSqlite(Option<rusqlite::Connection>);

impl PlainSqlite {
    fn open(place: &str) -> Result<Self> {
        let connection = rusqlite::Connection::open(place)?;
        connection.busy_timeout(Duration::from_secs(30))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS checkpoint (id INTEGER PRIMARY KEY, run TEXT NOT NULL, \
             created_at TEXT NOT NULL, summary TEXT NOT NULL, state TEXT NOT NULL); \
             CREATE INDEX IF NOT EXISTS by_run ON checkpoint (run, id)",
        )?;
        Ok(Self(Some(connection)))
    }

    fn connection(&self) -> Result<&rusqlite::Connection> {
        self.0.as_ref().context("the file was closed")
    }

    fn insert(&self, run: &str, state: &str) -> Result<()> {
        let sql =
            "INSERT INTO checkpoint (run, created_at, summary, state) VALUES (?, datetime('now'), 'step', ?)";
        self.connection()?.prepare_cached(sql)?.execute([run, state])?;
        Ok(())
    }
}

impl System for PlainSqlite {
    fn save(&mut self, run: &str, state: &str) -> Result<Duration> {
        let start = Instant::now();
        self.insert(run, state)?;
        Ok(start.elapsed())
    }

    fn latest(&mut self, run: &str) -> Result<(Duration, usize)> {
        let sql = "SELECT state FROM checkpoint WHERE run = ? ORDER BY id DESC LIMIT 1";
        let start = Instant::now();
        let state: String = self.connection()?.prepare_cached(sql)?.query_row([run], |row| row.get(0))?;
        Ok((start.elapsed(), state.len()))
    }

    fn list(&mut self, run: &str, limit: usize) -> Result<(Duration, usize)> {
        let sql = "SELECT id, created_at, summary FROM checkpoint WHERE run = ? ORDER BY id DESC LIMIT ?";
        let start = Instant::now();
        let mut statement = self.connection()?.prepare_cached(sql)?;
        let row = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        };
        let rows =
            statement.query_map(rusqlite::params![run, limit as i64], row)?.collect::<Result<Vec<_>, _>>()?;
        Ok((start.elapsed(), rows.len()))
    }

    fn fill(&mut self, run: &str, count: usize, state: &str) -> Result<()> {
        self.connection()?.execute_batch("BEGIN")?;
        for _ in 0..count {
            self.insert(run, state)?;
        }
        Ok(self.connection()?.execute_batch("COMMIT")?)
    }

    fn keep(&mut self, run: &str, count: usize) -> Result<()> {
        let sql = "DELETE FROM checkpoint WHERE run = ?1 AND id <= \
                   (SELECT id FROM checkpoint WHERE run = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
        self.connection()?.execute(sql, rusqlite::params![run, count as i64])?;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        drop(self.0.take());
        Ok(())
    }
}

/// The floor: an append and an fdatasync for a save, one read of the newest bytes for the newest state. It has no list.
struct FloorFile {
    file: File,
    end: u64,
    last: usize,
}

impl FloorFile {
    fn create(path: &Path) -> Result<Self> {
        let mut options = File::options();
        let file =
            options.read(true).append(true).create(true).open(path).context("cannot create the file")?;
        Ok(Self { file, end: 0, last: 0 })
    }
}

impl System for FloorFile {
    fn save(&mut self, _run: &str, state: &str) -> Result<Duration> {
        let start = Instant::now();
        self.file.write_all(state.as_bytes())?;
        self.file.sync_data()?;
        let time = start.elapsed();
        (self.end, self.last) = (self.end + state.len() as u64, state.len());
        Ok(time)
    }

    fn latest(&mut self, _run: &str) -> Result<(Duration, usize)> {
        let start = Instant::now();
        let mut bytes = vec![0; self.last];
        self.file.read_exact_at(&mut bytes, self.end - self.last as u64)?;
        Ok((start.elapsed(), bytes.len()))
    }

    fn list(&mut self, _run: &str, limit: usize) -> Result<(Duration, usize)> {
        Ok((Duration::ZERO, limit))
    }

    fn fill(&mut self, _run: &str, count: usize, state: &str) -> Result<()> {
        for _ in 0..count {
            self.file.write_all(state.as_bytes())?;
        }
        (self.end, self.last) = (self.end + (count * state.len()) as u64, state.len());
        Ok(self.file.sync_data()?)
    }

    fn keep(&mut self, _run: &str, _count: usize) -> Result<()> {
        bail!("the floor keeps everything")
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}
