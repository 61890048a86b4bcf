//! The options of a connection by name, with libpq's precedence: connection string, service file, environment.
//! Must not interpret values: `settings` does.

use std::collections::BTreeMap;

use super::settings_error::SettingsError;
use super::{Environment, key_value, service_file, url};

/// Whether Milepost uses an option.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Support {
    Used,
    /// Accepted without effect, because it changes nothing here.
    Ignored,
    /// Refused unless empty: it restricts the connection in a way that Milepost does not implement.
    Refused,
}

use Support::{Ignored, Refused, Used};

/// Every option of libpq and Milepost's own, with its variable. Order does not matter.
const OPTIONS: [(&str, Option<&str>, Support); 48] = [
    ("application_name", Some("PGAPPNAME"), Used),
    ("channel_binding", Some("PGCHANNELBINDING"), Used),
    ("client_encoding", Some("PGCLIENTENCODING"), Ignored),
    ("connect_timeout", Some("PGCONNECT_TIMEOUT"), Used),
    ("dbname", Some("PGDATABASE"), Used),
    ("fallback_application_name", None, Used),
    ("gssdelegation", Some("PGGSSDELEGATION"), Ignored),
    ("gssencmode", Some("PGGSSENCMODE"), Used),
    ("gsslib", Some("PGGSSLIB"), Ignored),
    ("host", Some("PGHOST"), Used),
    ("hostaddr", Some("PGHOSTADDR"), Used),
    ("keepalives", None, Used),
    ("keepalives_count", None, Used),
    ("keepalives_idle", None, Used),
    ("keepalives_interval", None, Used),
    ("krbsrvname", Some("PGKRBSRVNAME"), Ignored),
    ("load_balance_hosts", Some("PGLOADBALANCEHOSTS"), Used),
    ("max_protocol_version", Some("PGMAXPROTOCOLVERSION"), Ignored),
    ("min_protocol_version", Some("PGMINPROTOCOLVERSION"), Ignored),
    ("options", Some("PGOPTIONS"), Used),
    ("passfile", Some("PGPASSFILE"), Used),
    ("password", Some("PGPASSWORD"), Used),
    ("port", Some("PGPORT"), Used),
    ("replication", None, Refused),
    ("require_auth", Some("PGREQUIREAUTH"), Refused),
    ("requirepeer", Some("PGREQUIREPEER"), Refused),
    ("schema", None, Used),
    ("scram_client_key", None, Refused),
    ("scram_server_key", None, Refused),
    ("service", Some("PGSERVICE"), Used),
    ("ssl_max_protocol_version", Some("PGSSLMAXPROTOCOLVERSION"), Used),
    ("ssl_min_protocol_version", Some("PGSSLMINPROTOCOLVERSION"), Used),
    ("sslcert", Some("PGSSLCERT"), Used),
    ("sslcertmode", Some("PGSSLCERTMODE"), Used),
    ("sslcompression", Some("PGSSLCOMPRESSION"), Ignored),
    ("sslcrl", Some("PGSSLCRL"), Refused),
    ("sslcrldir", Some("PGSSLCRLDIR"), Refused),
    ("sslkey", Some("PGSSLKEY"), Used),
    ("sslkeylogfile", None, Refused),
    ("sslmode", Some("PGSSLMODE"), Used),
    ("sslnegotiation", Some("PGSSLNEGOTIATION"), Used),
    ("sslpassword", None, Refused),
    ("sslrootcert", Some("PGSSLROOTCERT"), Used),
    ("sslsni", Some("PGSSLSNI"), Used),
    ("statement_timeout", None, Used),
    ("target_session_attrs", Some("PGTARGETSESSIONATTRS"), Used),
    ("tcp_user_timeout", None, Used),
    ("user", Some("PGUSER"), Used),
];

/// The options that were given, by name.
#[derive(Default)]
pub(super) struct Options(BTreeMap<&'static str, String>);

impl Options {
    /// Reads a connection string and completes it from the service file and the environment.
    pub(super) fn collect(text: &str, environment: &Environment) -> Result<Self, SettingsError> {
        if text.contains('\0') {
            return Err(SettingsError::ZeroByte);
        }
        let mut options = Self::default();
        if url::is_url(text) {
            url::parse(text, &mut options)?;
        } else {
            key_value::parse(text, &mut options)?;
        }
        service_file::complete(&mut options, environment)?;
        for (name, variable, _) in OPTIONS {
            if let Some(value) = variable.and_then(|variable| environment.variable(variable)) {
                options.set_default(name, value);
            }
        }
        let refused =
            |(name, _, support): &&(&'static str, _, _)| *support == Refused && options.get(name).is_some();
        match OPTIONS.iter().find(refused) {
            Some((option, ..)) => Err(SettingsError::Unsupported { option }),
            None => Ok(options),
        }
    }

    /// Sets an option, also if it is already set. `false` if there is no such option.
    pub(super) fn set(&mut self, name: &str, value: String) -> bool {
        let known = known(name);
        if let Some(name) = known {
            self.0.insert(name, value);
        }
        known.is_some()
    }

    /// Sets an option unless it is already set, even to an empty value.
    pub(super) fn set_default(&mut self, name: &'static str, value: &str) {
        self.0.entry(name).or_insert_with(|| value.to_owned());
    }

    /// The value of an option; none if it is empty, as in libpq.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// The name of an option, if there is such an option.
pub(super) fn known(name: &str) -> Option<&'static str> {
    OPTIONS.iter().map(|(known, ..)| *known).find(|known| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_string_wins_over_the_environment_even_if_empty() {
        let mut environment = Environment::new();
        for (name, value) in [("PGHOST", "from.env"), ("PGUSER", "env"), ("PGPORT", "1")] {
            environment.variables.insert(name.into(), value.into());
        }
        let options = Options::collect("user=me host=''", &environment).unwrap();
        assert_eq!(options.get("user"), Some("me"));
        assert_eq!(options.get("host"), None);
        assert_eq!(options.get("port"), Some("1"));
    }

    #[test]
    fn options_that_restrict_a_connection_are_refused_rather_than_ignored() {
        for text in ["sslcrl=x", "requirepeer=postgres", "postgres://h/d?require_auth=scram-sha-256"] {
            let error = Options::collect(text, &Environment::new()).err().unwrap();
            assert!(matches!(error, SettingsError::Unsupported { .. }), "{text}: {error}");
        }
        assert!(Options::collect("krbsrvname=postgres sslcrl=''", &Environment::new()).is_ok());
    }
}
