//! Lists checkpoints by their positions in threads. Takes a filter and returns rows in the order of the ids.
//! Every list is a range of one index, read up to its limit. Appended rows are few, so all of them are read.

use rusqlite::{Result, ToSql};

use super::StoreView;
use crate::store::sqlite::decode::{ENTRY_COLUMNS, integer, listed, number};
use crate::store::sqlite::thread_positions::{POSITION, PositionRow};
use crate::store::{HeaderQuery, Row, ThreadFilter};

/// The columns of an entry with those of its position. The position is the outer table of the join.
const ENTRY_AT: &str = "c.run_n, c.sequence, c.snapshot_id, c.stamp, c.checksum, c.header, \
                        m.revision, m.checksum, m.marks";
const JOINED: &str = "CROSS JOIN checkpoint c ON c.run_n = p.run_n AND c.sequence = p.sequence \
                      LEFT JOIN marks m ON m.run_n = c.run_n AND m.sequence = c.sequence";

/// A row with the id and stamp of its position.
type Positioned = (String, u64, Row);

/// The statement that lists the positions that match a filter, and its parameters.
fn statement<'a>(
    n: Option<&'a i64>,
    filter: &'a ThreadFilter<'a>,
    stamp: &'a i64,
) -> (String, Vec<&'a dyn ToSql>) {
    let mut conditions = Vec::new();
    let mut params: Vec<&dyn ToSql> = Vec::new();
    let mut add = |condition: &str, values: &[&'a dyn ToSql]| {
        let mut numbered = condition.to_owned();
        for value in values {
            params.push(*value);
            numbered = numbered.replacen('$', &format!("?{}", params.len()), 1);
        }
        conditions.push(numbered);
    };
    if let Some(n) = n {
        add("p.run_n = $", &[n]);
    }
    if let Some(namespace) = &filter.namespace {
        add("p.namespace = $", &[namespace]);
    }
    if let Some(invocation) = &filter.invocation {
        add("p.invocation = $", &[invocation]);
    }
    if let Some(id) = &filter.id {
        add("p.id = $", &[id]);
    }
    if let Some((id, _)) = &filter.after {
        add("(p.id, p.stamp) < ($, $)", &[id, stamp]);
    }
    let index = match (n, filter) {
        (_, ThreadFilter { invocation: Some(_), id: None, .. }) => "INDEXED BY thread_invocation",
        (None, _) => "INDEXED BY thread_id",
        (Some(_), ThreadFilter { namespace: Some(_), .. }) => "INDEXED BY thread_namespace",
        // The primary key.
        (Some(_), _) => "NOT INDEXED",
    };
    let conditions = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
    let sql = format!(
        "SELECT {ENTRY_AT}, {POSITION} FROM thread_position p {index} {JOINED} WHERE {conditions} \
         ORDER BY p.id DESC, p.stamp DESC"
    );
    (sql, params)
}

impl StoreView<'_> {
    /// The checkpoints with a position that the query matches, in the order of their ids. `n` is the row number
    /// of the run of the query.
    pub(super) fn by_thread(
        &self,
        n: Option<i64>,
        filter: &ThreadFilter<'_>,
        query: &HeaderQuery<'_>,
    ) -> Result<Vec<Row>> {
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let mut found = self.merged_positions(n, filter, limit)?;
        let merged = found.len();
        for row in self.log.rows().filter(|row| n.is_none_or(|n| row.n == n)) {
            // A damaged header states no position.
            let Row::Intact(entry) = self.appended_entry(row)? else { continue };
            if filter.matches(&entry.header)
                && let Some(thread) = &entry.header.thread
            {
                found.push((thread.id.clone(), entry.header.stamp, Row::Intact(entry)));
            }
        }
        if found.len() > merged {
            found.sort_by(|(a, a_stamp, _), (b, b_stamp, _)| (b, b_stamp).cmp(&(a, a_stamp)));
            found.truncate(limit);
        }
        Ok(found.into_iter().map(|(_, _, row)| row).collect())
    }

    /// Like `by_thread`, but ignores appended rows. Skips positions that their headers do not confirm.
    fn merged_positions(
        &self,
        n: Option<i64>,
        filter: &ThreadFilter<'_>,
        limit: usize,
    ) -> Result<Vec<Positioned>> {
        let stamp = filter.after.map_or(0, |(_, stamp)| integer(stamp));
        let (sql, params) = statement(n.as_ref(), filter, &stamp);
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(&params[..])?;
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            if self.log.has_removed(row.get(0)?, number(row, 1)?) {
                continue;
            }
            let position = PositionRow::read(row, ENTRY_COLUMNS)?;
            let entry = listed(row)?;
            let is_confirmed = match &entry {
                Row::Intact(entry) => position.is_of(&entry.header),
                Row::Damaged { .. } => true,
            };
            if is_confirmed {
                found.push((position.id, position.stamp, entry));
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::model::RunId;
    use crate::store::CheckpointFilter;
    use crate::store::sqlite::schema;

    const FILTERS: [(bool, ThreadFilter<'static>); 9] = {
        let all = ThreadFilter { namespace: None, id: None, invocation: None, after: None };
        let namespace = ThreadFilter { namespace: Some("ns-3"), ..all };
        let after = Some(("id-00000004", 4));
        [
            (true, all),
            (true, namespace),
            (true, ThreadFilter { id: Some("id-00000003"), ..namespace }),
            (true, ThreadFilter { id: Some("id-00000003"), ..all }),
            (true, ThreadFilter { after, ..namespace }),
            (true, ThreadFilter { after, ..all }),
            (false, ThreadFilter { id: Some("id-00000003"), ..all }),
            (false, ThreadFilter { after, ..all }),
            (false, ThreadFilter { invocation: Some("inv-3"), ..all }),
        ]
    };

    /// A database with `count` checkpoints of one run, each in a namespace of its own.
    fn database(count: i64) -> rusqlite::Connection {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        db.execute_batch(schema::TABLES).unwrap();
        db.execute("INSERT INTO run VALUES (1, 'r', 1, 1, 1, 0, x'', '')", []).unwrap();
        for n in 1..=count {
            let id = format!("cp_20260102T030405006Z_{n:012}");
            let put = "INSERT INTO checkpoint VALUES (1, ?1, ?2, ?1, x'', '')";
            db.execute(put, (n, &id)).unwrap();
            let position = "INSERT INTO thread_position VALUES (1, ?2, ?1, ?1, ?3, ?4)";
            let texts = (n, format!("id-{n:08}"), format!("ns-{n}"), format!("inv-{n}"));
            db.execute(position, texts).unwrap();
        }
        db
    }

    #[test]
    fn every_list_is_a_range_of_an_index() {
        let db = database(3);
        let run = 1;
        for (of_run, filter) in FILTERS {
            let (sql, params) = statement(of_run.then_some(&run), &filter, &3);
            let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let mut rows = explain.query(&params[..]).unwrap();
            let mut plan: Vec<String> = Vec::new();
            while let Some(row) = rows.next().unwrap() {
                plan.push(row.get(3).unwrap());
            }
            assert!(plan.iter().all(|step| step.starts_with("SEARCH")), "{sql}: {plan:?}");
        }
        let (sql, _) = statement(None, &ThreadFilter::default(), &0);
        let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let first: String = explain.query_row([], |row| row.get(3)).unwrap();
        assert_eq!(first, "SCAN p USING INDEX thread_id", "the whole list needs no sort");
    }

    #[test]
    fn a_page_costs_the_same_in_a_large_run_with_many_namespaces() {
        let run: RunId = "r".parse().unwrap();
        let steps = |count: i64| {
            let mut db = database(count);
            let counter = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&counter);
            let count_step = move || {
                counted.fetch_add(1, Ordering::Relaxed);
                false
            };
            db.progress_handler(1, Some(count_step)).unwrap();
            let view = StoreView::load(&db).unwrap();
            for (of_run, filter) in FILTERS.into_iter().chain([(false, ThreadFilter::default())]) {
                let query = HeaderQuery::default().find(CheckpointFilter::Thread(filter)).limit(1);
                let query = if of_run { query.run(&run) } else { query };
                assert_eq!(view.headers(&query).unwrap().len(), 1, "{filter:?}");
            }
            counter.load(Ordering::Relaxed)
        };
        assert_eq!(steps(5), steps(2000));
    }
}
