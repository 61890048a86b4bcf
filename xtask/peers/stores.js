// What people write in Node: a table of checkpoints with better-sqlite3, and a folder of JSON files that are replaced
// atomically. Both are durable when `save` returns. Used by worker.js and one_shot.js.
"use strict";

const fs = require("node:fs");
const path = require("node:path");

/** One table in the write-ahead log, one commit per save. */
class BetterSqlite {
  constructor(place) {
    const Database = require("better-sqlite3");
    this.db = new Database(place, { timeout: 30_000 });
    this.db.pragma("journal_mode = WAL");
    this.db.pragma("synchronous = FULL");
    this.db.exec(
      "CREATE TABLE IF NOT EXISTS checkpoint (id INTEGER PRIMARY KEY, run TEXT NOT NULL, created_at TEXT NOT NULL, " +
        "summary TEXT NOT NULL, state TEXT NOT NULL); CREATE INDEX IF NOT EXISTS by_run ON checkpoint (run, id)",
    );
    const prepare = (sql) => this.db.prepare(sql);
    this.insert = prepare("INSERT INTO checkpoint (run, created_at, summary, state) VALUES (?, ?, ?, ?)");
    this.newest = prepare("SELECT state FROM checkpoint WHERE run = ? ORDER BY id DESC LIMIT 1");
    this.listed = prepare(
      "SELECT id, created_at, summary FROM checkpoint WHERE run = ? ORDER BY id DESC LIMIT ?",
    );
  }

  save(run, state) {
    this.insert.run(run, new Date().toISOString(), "step", state);
  }

  latest(run) {
    return JSON.parse(this.newest.get(run).state);
  }

  list(run, limit) {
    return this.listed.all(run, limit);
  }

  /** Adds many checkpoints in one transaction. */
  fill(run, count, state) {
    this.db.transaction(() => {
      for (let n = 0; n < count; n++) this.save(run, state);
    })();
  }

  keep(run, count) {
    const oldest = "SELECT id FROM checkpoint WHERE run = ? ORDER BY id DESC LIMIT 1 OFFSET ?";
    this.db.prepare(`DELETE FROM checkpoint WHERE run = ? AND id <= (${oldest})`).run(run, run, count);
  }

  close() {
    this.db.close();
  }
}

/** One file per checkpoint in a folder per run. The name orders the files. */
class JsonFiles {
  constructor(place) {
    this.place = place;
    this.next = new Map();
    fs.mkdirSync(place, { recursive: true });
  }

  folder(run) {
    return path.join(this.place, run);
  }

  names(run) {
    return fs.readdirSync(this.folder(run)).filter((name) => name.endsWith(".json")).sort();
  }

  /** The number of the next checkpoint, which is read from the folder once. */
  number(run) {
    if (!this.next.has(run)) {
      fs.mkdirSync(this.folder(run), { recursive: true });
      const names = this.names(run);
      this.next.set(run, names.length === 0 ? 1 : parseInt(names[names.length - 1], 10) + 1);
    }
    const number = this.next.get(run);
    this.next.set(run, number + 1);
    return String(number).padStart(9, "0");
  }

  text(state) {
    return `{"created_at":"${new Date().toISOString()}","summary":"step","state":${state}}`;
  }

  save(run, state) {
    const folder = this.folder(run);
    const final = path.join(folder, `${this.number(run)}.json`);
    const file = fs.openSync(`${final}.tmp`, "wx");
    fs.writeSync(file, this.text(state));
    fs.fsyncSync(file);
    fs.closeSync(file);
    fs.renameSync(`${final}.tmp`, final);
    const parent = fs.openSync(folder, "r");
    fs.fsyncSync(parent);
    fs.closeSync(parent);
  }

  read(run, name) {
    return JSON.parse(fs.readFileSync(path.join(this.folder(run), name), "utf8"));
  }

  latest(run) {
    const names = this.names(run);
    return this.read(run, names[names.length - 1]).state;
  }

  list(run, limit) {
    const newest = this.names(run).slice(-limit).reverse();
    return newest.map((name) => {
      const { created_at, summary } = this.read(run, name);
      return { id: parseInt(name, 10), created_at, summary };
    });
  }

  /** Writes many files without syncing them. */
  fill(run, count, state) {
    for (let n = 0; n < count; n++) {
      const number = this.number(run);
      fs.writeFileSync(path.join(this.folder(run), `${number}.json`), this.text(state));
    }
  }

  keep(run, count) {
    const names = this.names(run);
    for (const name of names.slice(0, names.length - count)) fs.unlinkSync(path.join(this.folder(run), name));
  }

  close() {}
}

exports.open = (system, place) => {
  if (system === "better-sqlite3") return new BetterSqlite(place);
  if (system === "json-files") return new JsonFiles(place);
  throw new Error(`unknown system ${system}`);
};
