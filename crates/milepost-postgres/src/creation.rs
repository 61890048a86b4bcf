//! Checks the version of the schema before a handle uses it, and creates the schema if the options allow it. Safe if
//! many clients do so at once. The text of the statements is in `schema`.

use std::sync::atomic::Ordering;

use milepost::internal::model::StoreId;
use milepost::store::{ServerProblem, StoreError};

use crate::connection::Settings;
use crate::decode::column;
use crate::error::PostgresError;
use crate::pool::{Deadline, Failed};
use crate::schema::{self, SchemaName};
use crate::session::Params;
use crate::store::{PostgresStore, WorkError};

impl PostgresStore {
    /// Checks the version of the schema once per handle, and creates the schema if the options allow it.
    pub(crate) fn prepare_schema(&self, deadline: &mut Deadline) -> Result<(), StoreError> {
        if self.is_ready.load(Ordering::Acquire) {
            return Ok(());
        }
        let found = match self.stored_version(deadline) {
            Err(StoreError::Missing { .. }) if self.options.create && self.options.foreign.is_none() => {
                self.create_schema(deadline)?;
                self.stored_version(deadline)?
            }
            found => found?,
        };
        if found > schema::VERSION {
            let (found, known) = (found as u64, schema::VERSION as u64);
            return Err(StoreError::Newer { location: self.location(), found, known });
        }
        self.is_ready.store(true, Ordering::Release);
        Ok(())
    }

    fn stored_version(&self, deadline: &mut Deadline) -> Result<i64, StoreError> {
        let sql = self.schema().fill("SELECT version, session_user::text AS name FROM {s}.meta");
        let found = self.pool().run(deadline, |session, deadline| {
            let rows = session.query(&sql, &Params::new(), deadline.left())?;
            if let Some(row) = rows.first() {
                let _ = self.user.set(column(row, "name")?);
            }
            let version = rows.first().map(|row| column::<i64>(row, "version")).transpose()?;
            version.ok_or_else(|| {
                Failed::Final(WorkError::Store(StoreError::Missing { location: self.location() }))
            })
        });
        found.map_err(|e| match e {
            WorkError::Store(e) => e,
            WorkError::Postgres(e) => self.read_error(e),
        })
    }

    /// Creates the schema. Clients that do so at the same time may collide in the server's catalog, so that all
    /// but one repeat it.
    fn create_schema(&self, deadline: &mut Deadline) -> Result<(), StoreError> {
        let encoding = "SELECT current_setting('server_encoding') AS encoding";
        let sql = format!(
            "BEGIN; {} COMMIT;",
            schema::create_statements(self.schema(), StoreId::generate().as_str())
        );
        loop {
            let created = self.run_work(deadline, |session, deadline| {
                let rows = session.query(encoding, &Params::new(), deadline.left())?;
                let found: String = rows.first().map_or(Ok(String::new()), |row| column(row, "encoding"))?;
                if found != "UTF8" {
                    let source = PostgresError::Value {
                        message: format!("the database's encoding is {found}, not UTF8"),
                    };
                    return Err(Failed::Final(StoreError::Write {
                        location: self.location(),
                        source: source.into(),
                    }));
                }
                match session.batch(&sql, deadline.left()) {
                    // 23505 and XX000 come from the catalog, 42P06, 42P07 and 42710 from objects that now exist.
                    Err(e) if matches!(e.code(), Some("23505" | "XX000" | "42P06" | "42P07" | "42710")) => {
                        session.batch("ROLLBACK", deadline.left())?;
                        Ok(false)
                    }
                    Err(e @ PostgresError::Refused { .. }) => {
                        session.batch("ROLLBACK", deadline.left())?;
                        Err(self.creation_error(e))
                    }
                    created => Ok(created.map(|()| true)?),
                }
            })?;
            if created {
                return Ok(());
            }
            if !deadline.pause() {
                return Err(StoreError::Busy { location: self.location(), waited: deadline.waited() });
            }
        }
    }

    /// The error of a creation that the server refused.
    fn creation_error(&self, e: PostgresError) -> Failed<StoreError> {
        match e {
            PostgresError::Refused { code, message, .. } if code == "42501" => {
                let source =
                    PostgresError::MayNotCreate { schema: self.schema().as_str().to_owned(), message };
                Failed::Final(StoreError::Server {
                    location: self.location(),
                    problem: ServerProblem::MissingRights,
                    source: source.into(),
                })
            }
            e => e.into(),
        }
    }

    /// A script that creates the store, for teams whose applications must not do so. With the name of a role, it also
    /// grants that role exactly the rights that an application needs.
    pub fn create_statements(settings: &Settings, role: Option<&str>) -> String {
        schema::script(&SchemaName::new(settings.schema()), StoreId::generate().as_str(), role)
    }

    /// Creates the store, or does nothing if it exists.
    pub fn create(&self) -> Result<(), StoreError> {
        self.check_writable()?;
        let mut deadline = self.deadline();
        match self.stored_version(&mut deadline) {
            Err(StoreError::Missing { .. }) => self.create_schema(&mut deadline)?,
            found => drop(found?),
        }
        self.prepare_schema(&mut deadline)
    }

    /// The random id of the store, which is the same for every address of it.
    pub fn store_id(&self) -> Result<String, StoreError> {
        let sql = self.schema().fill("SELECT store_id FROM {s}.meta");
        self.read(|session, deadline| {
            let rows = session.query(&sql, &Params::new(), deadline.left())?;
            let id = rows.first().map(|row| column(row, "store_id")).transpose()?;
            id.ok_or_else(|| Failed::Final(StoreError::Missing { location: self.location() }))
        })
    }
}
