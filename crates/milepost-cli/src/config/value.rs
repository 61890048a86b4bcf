//! Types of setting values: durations, sizes, counts, paths. Each type parses the value as written, explains
//! what is allowed, and formats itself for `config show`.

use std::fmt::{self, Display};
use std::path::PathBuf;
use std::time::Duration;

use milepost::AllowList;
use milepost::internal::model::KeepCount;
use milepost::model::Profile;

/// An unparsed value: text from a flag or a variable, or a TOML value from a file.
#[derive(Clone)]
pub(super) enum RawValue {
    Text(String),
    Toml(toml::Value),
}

impl RawValue {
    /// The value as text. In a file, it may be written with or without quotes.
    fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Toml(toml::Value::String(text)) => text,
            Self::Toml(other) => other.to_string(),
        }
    }
}

/// The value of a setting.
pub(super) trait SettingValue: Display + Sized {
    /// Parses the value as written. The error explains what is allowed.
    fn parse(raw: RawValue) -> Result<Self, String>;
}

impl SettingValue for String {
    fn parse(raw: RawValue) -> Result<Self, String> {
        match raw {
            RawValue::Text(text) | RawValue::Toml(toml::Value::String(text)) => Ok(text),
            RawValue::Toml(other) => Err(format!("expected text in quotes, found {other}")),
        }
    }
}

impl SettingValue for bool {
    fn parse(raw: RawValue) -> Result<Self, String> {
        match raw {
            RawValue::Toml(toml::Value::Boolean(value)) => Ok(value),
            _ => Err("expected true or false".into()),
        }
    }
}

impl SettingValue for u64 {
    fn parse(raw: RawValue) -> Result<Self, String> {
        let text = raw.into_text();
        text.parse().map_err(|_| format!("\"{text}\" is not a whole number of 0 or more"))
    }
}

impl SettingValue for KeepCount {
    fn parse(raw: RawValue) -> Result<Self, String> {
        raw.into_text().parse::<Self>().map_err(|e| e.message)
    }
}

impl SettingValue for Profile {
    fn parse(raw: RawValue) -> Result<Self, String> {
        String::parse(raw)?.parse::<Self>().map_err(|e| e.message)
    }
}

/// A waiting time: a number of seconds, or a duration.
#[derive(PartialEq)]
pub(super) struct Seconds(pub(super) Duration);

impl SettingValue for Seconds {
    fn parse(raw: RawValue) -> Result<Self, String> {
        let text = raw.into_text();
        let plain = text.parse::<f64>().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
        match plain {
            // Longer waits could overflow the clock.
            Some(wait) => Ok(Self(wait.min(Duration::from_secs(31_536_000)))),
            None => duration(&text).map(Self).map_err(|_| {
                format!("\"{text}\" is not a number of seconds (0 or more) or a duration such as 5m")
            }),
        }
    }
}

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_secs_f64())
    }
}

/// A number of bytes; 0 means no limit.
#[derive(PartialEq)]
pub(super) struct Size(pub(super) u64);

impl SettingValue for Size {
    fn parse(raw: RawValue) -> Result<Self, String> {
        size(&raw.into_text()).map(Self)
    }
}

impl Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 6] = [
            (1 << 30, "GiB"),
            (1_000_000_000, "GB"),
            (1 << 20, "MiB"),
            (1_000_000, "MB"),
            (1 << 10, "KiB"),
            (1000, "KB"),
        ];
        match UNITS.iter().find(|(unit, _)| self.0 > 0 && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

/// An age limit; `None` means no limit.
#[derive(PartialEq, PartialOrd)]
pub(super) struct Age(pub(super) Option<Duration>);

impl SettingValue for Age {
    fn parse(raw: RawValue) -> Result<Self, String> {
        match String::parse(raw)?.as_str() {
            "none" => Ok(Self(None)),
            text => duration(text)
                .map(|age| Self(Some(age)))
                .map_err(|e| format!("{e}; \"none\" is also allowed")),
        }
    }
}

impl Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(age) = self.0 else { return f.write_str("none") };
        const UNITS: [(u64, &str); 3] = [(86_400, "d"), (3600, "h"), (60, "m")];
        let seconds = age.as_secs();
        match UNITS.iter().find(|(unit, _)| seconds > 0 && seconds.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", seconds / unit),
            None => write!(f, "{seconds}s"),
        }
    }
}

/// The time between two events; never 0.
#[derive(PartialEq, PartialOrd)]
pub(super) struct Interval(pub(super) Duration);

impl SettingValue for Interval {
    fn parse(raw: RawValue) -> Result<Self, String> {
        let every = duration(&String::parse(raw)?)?;
        if every.is_zero() { Err("an interval must be longer than 0".into()) } else { Ok(Self(every)) }
    }
}

impl Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Age(Some(self.0)).fmt(f)
    }
}

/// The path to a value in a JSON file: a list of member names.
pub(super) struct KeyPath(pub(super) Vec<String>);

impl SettingValue for KeyPath {
    fn parse(raw: RawValue) -> Result<Self, String> {
        let text = String::parse(raw)?;
        let names: Vec<String> = text.split('.').map(str::to_owned).collect();
        if names.iter().any(String::is_empty) {
            return Err(format!("\"{text}\" is not a dotted path such as \"state.checkpointRef\""));
        }
        Ok(Self(names))
    }
}

impl Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// Folders: a list, or a single one.
pub(super) struct Folders(pub(super) Vec<PathBuf>);

impl SettingValue for Folders {
    fn parse(raw: RawValue) -> Result<Self, String> {
        let one = |value: toml::Value| match value {
            toml::Value::String(text) if !text.is_empty() => Ok(PathBuf::from(text)),
            other => Err(format!("expected a folder name in quotes, found {other}")),
        };
        Ok(Self(match raw {
            RawValue::Toml(toml::Value::Array(all)) => all.into_iter().map(one).collect::<Result<_, _>>()?,
            RawValue::Toml(value) => vec![one(value)?],
            RawValue::Text(text) => vec![text.into()],
        }))
    }
}

impl Display for Folders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> = self.0.iter().map(|folder| folder.display().to_string()).collect();
        f.write_str(&shown.join(", "))
    }
}

/// Values that redaction does not replace.
#[derive(Default)]
pub(super) struct AllowedValues(pub(super) AllowList);

impl SettingValue for AllowedValues {
    fn parse(raw: RawValue) -> Result<Self, String> {
        let entries: Vec<String> = match raw {
            RawValue::Toml(toml::Value::Array(all)) => {
                all.into_iter().map(|value| String::parse(RawValue::Toml(value))).collect::<Result<_, _>>()?
            }
            RawValue::Toml(other) => {
                return Err(format!("expected a list of texts in quotes, found {other}"));
            }
            RawValue::Text(text) => vec![text],
        };
        AllowList::new(entries).map(Self).map_err(|e| e.message)
    }
}

impl Display for AllowedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.entries() {
            [] => f.write_str("none"),
            entries => f.write_str(&entries.join(", ")),
        }
    }
}

/// Parses a number with a unit of time: `30s`, `5m`, `12h`, `14d`, `2w`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("\"{text}\" is not a duration such as 30s, 5m, 12h, 14d or 2w");
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let seconds = match &text[digits..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    // Timestamps cannot represent a time further back.
    number.checked_mul(seconds).filter(|s| *s <= 315_360_000_000).map(Duration::from_secs).ok_or_else(wrong)
}

/// Parses a number of bytes, with an optional unit, such as `256KiB` or `1MB`.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is not a size such as 65536, 256KiB or 1MiB; 0 means no limit");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit: u64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "kb" => 1000,
        "m" | "mib" => 1 << 20,
        "mb" => 1_000_000,
        "g" | "gib" => 1 << 30,
        "gb" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    text[..digits].parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("14d"), Ok(Duration::from_secs(14 * 86_400)));
        assert_eq!(duration("2w"), Ok(Duration::from_secs(14 * 86_400)));
        for wrong in ["", "5", "d", "-1d", "1.5h", "1y", "99999999999999999999w", "9999999999999w"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        assert_eq!(size("256KiB"), Ok(262_144));
        assert_eq!(size("1MB"), Ok(1_000_000));
        assert_eq!(size("0"), Ok(0));
        assert_eq!(Size(262_144).to_string(), "256KiB");
        assert_eq!(Size(1_000_000_000).to_string(), "1GB");
        for wrong in ["", "KiB", "-1", "1.5MiB", "1 furlong", "99999999999999GiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
