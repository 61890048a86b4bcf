//! Benchmark: parsing a brief and fitting it to a token budget, compared with one pass of the default token
//! counter.

use std::hint::black_box;

use anyhow::{Context, Result};
use milepost::brief::{Brief, FitOptions, Overflow};
use milepost::internal::brief::TokenCounter;

use super::measure::{Row, pairs};

pub fn fit(short: bool) -> Result<Vec<Row>> {
    let mut lines = Vec::new();
    for (size, bound) in [(10, 5.0), (200, 20.0)] {
        let text = document(size * 1024);
        let rounds = if short { 20 } else { 400 };
        for budget in [500, 1000] {
            let how = FitOptions::default().budget(budget).overflow(Overflow::Shrink);
            let (ours, floor) = pairs(
                rounds,
                || {
                    let fitted = Brief::parse(black_box(text.as_str()))
                        .fit(&how)
                        .ok()
                        .context("the brief did not fit")?;
                    black_box(fitted.markdown().len());
                    Ok(())
                },
                || {
                    black_box(TokenCounter::default().tokens(black_box(&text)));
                    Ok(())
                },
            )?;
            let what = format!("parse and fit of a {size} KB brief to {budget} tokens, vs one token count");
            lines.push(Row::times(what, ours.median(), floor.median(), bound));
        }
    }
    Ok(lines)
}

/// A brief of about `bytes` bytes, with steps, files and text in realistic proportions.
fn document(bytes: usize) -> String {
    let must = "---\ncheckpoint: bench\ncreated: 2026-01-01T00:00:00Z\n---\n\n## Problem\nThe exporter loses rows when \
                the connection drops.\n\n## Session Intent\nExport every row exactly once, also across restarts.\n\n\
                ## Essential Information\n\n### Decisions\n- Batches are numbered and acknowledged\n- No change to \
                the file format\n- Retries are bounded at five\n\n### Technical Context\n- Go 1.24 and PostgreSQL 17\n\
                - Tests: make check\n\n";
    let mut steps = String::from("### Play-By-Play\n");
    let mut files = String::from(
        "\n### Artifact Trail\n\n| File | Status | Key Change |\n|------|--------|------------|\n",
    );
    let mut notes = String::from("\n## Notes\n");
    let mut n = 0;
    while steps.len() + files.len() + notes.len() + must.len() + 400 < bytes {
        steps += &format!(
            "- Phase {} → Reworked part {n} of the exporter and measured it → {n} rows a second\n",
            n / 10
        );
        files += &format!(
            "| `src/export/part{}/file_{n}.go` | modified | Handles batch {n} and its `retries` |\n",
            n % 17
        );
        if n % 3 == 0 {
            notes += &format!(
                "The meeting of day {n} went over the numbers once more. Nothing was decided there.\n\n"
            );
        }
        n += 1;
    }
    let end = "\n### Current State\n- All batches are numbered\n- Two tests are flaky\n\n### Next Actions\n- Find the \
               flaky tests\n- Blocked: None\n\n## User Rules\n- Never drop a row\n";
    format!("{must}{steps}{files}{end}{notes}")
}
