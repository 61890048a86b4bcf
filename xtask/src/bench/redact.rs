//! Benchmark: redaction of 100 KB of text (ordinary, full of secrets, or hostile), with a limit in
//! milliseconds.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Result;

use super::measure::{Row, Sample, Work};

/// Maximum time for 100 KB.
const ALLOWED: Duration = Duration::from_millis(10);
const SIZE: usize = 100 * 1024;

pub fn redact_texts(short: bool) -> Result<Vec<Row>> {
    let rounds = if short { 20 } else { 100 };
    let document = Work::new(SIZE).json();
    let log: String =
        include_str!("../../../crates/milepost/src/redact/ordinary.txt").chars().cycle().take(SIZE).collect();
    let secret = format!("the password={} is in here, and more\n", "hunter2x9".repeat(2));
    let secrets: String = secret.chars().cycle().take(SIZE).collect();
    let repeated = |piece: &str| piece.chars().cycle().take(SIZE).collect::<String>();
    let lines = [
        ("JSON tasks", document),
        ("logs, diffs and lock files", log),
        ("one secret per line", secrets),
        ("base64", repeated("iVBORw0KGgoAAAANSUhEUgAAAAUA/9kAEAA+AStrndLTAIpatskcio")),
        ("hostile: names", repeated("token=")),
        ("hostile: commands", repeated("mysql -p 'a ")),
        ("hostile: lines of commands", repeated("docker login -p \\\n")),
        ("hostile: .netrc", repeated("machine a login b password ")),
        ("hostile: connection strings", repeated("user=;password=aaaaaa;")),
        ("hostile: addresses", repeated("otpauth://a:b@")),
    ];
    lines
        .into_iter()
        .map(|(what, text)| {
            let json = serde_json::to_string(&text)?;
            let mut sample = Sample::default();
            for _ in 0..rounds {
                sample.time(|| Ok(black_box(milepost::internal::redact::json(black_box(&json), "state"))))?;
            }
            Ok(Row::times(format!("redaction of 100 KB: {what}"), sample.median(), ALLOWED, 1.0))
        })
        .collect()
}
