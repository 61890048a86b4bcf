//! `cargo xtask survival`: measures which share of labelled facts survives when briefs are fitted to a
//! budget, compared with simple ways to truncate text. Reads `held-out` in `xtask/corpus`, or with `--tuning`
//! the part that the algorithm was tuned on. `--documents` prints the shares of each document, a document's
//! name prints its text at every budget, and `--check` fails if a bound is missed.

mod corpus;
mod truncate;

use anyhow::{Result, bail, ensure};
use milepost::brief::{Brief, FitOptions, Overflow};
use milepost::internal::brief::TokenCounter;

use corpus::{CorpusPart, Document, Weight};

const BUDGETS: [u64; 6] = [250, 500, 750, 1000, 1500, 2000];
/// The minimum weighted share at a budget, chosen for `held-out`.
const BOUNDS: [(u64, f64); 3] = [(500, 0.60), (1000, 0.90), (1500, 0.97)];

type Cut = fn(&str, u64) -> String;

const CUTS: [(&str, Cut); 6] = [
    ("brief fit", fitted),
    ("head", truncate::head),
    ("tail", truncate::tail),
    ("head and tail", truncate::both),
    ("uniform", truncate::uniform),
    ("section drop", truncate::sections),
];

fn fitted(text: &str, budget: u64) -> String {
    let whole = Some("milepost brief show latest".to_owned());
    let how = FitOptions::default().budget(budget).overflow(Overflow::Shrink).full_command(whole);
    Brief::parse(text).fit(&how).map(|fitted| fitted.markdown().clone()).unwrap_or_default()
}

pub fn run(args: &[&str]) -> Result<()> {
    let part = if args.contains(&"--tuning") { CorpusPart::Tuning } else { CorpusPart::HeldOut };
    let documents = corpus::read(part)?;
    ensure!(documents.len() >= 30, "{part} has {} documents", documents.len());
    let facts: usize = documents.iter().map(|document| document.facts.len()).sum();
    println!("{part}: {} documents, {facts} facts, {}", documents.len(), TokenCounter::default().name());
    if args.contains(&"--documents") {
        for document in &documents {
            let only = std::slice::from_ref(document);
            let shares = CUTS.map(|(name, cut)| {
                let at = BUDGETS.map(|budget| corpus::share(only, Weight::Equal, |text| cut(text, budget)));
                format!("{name} {}", at.map(|share| format!("{:.0}", share * 100.0)).join(" "))
            });
            println!("{} ({} facts): {}", document.name, document.facts.len(), shares.join(", "));
        }
        return Ok(());
    }
    if let Some(name) = args.iter().find(|arg| !arg.starts_with("--")) {
        return explain(part, &documents, name);
    }
    let mut missed = Vec::new();
    for weights in [Weight::ByRank, Weight::Equal] {
        println!("\n| {weights} |{} |", BUDGETS.map(|budget| format!(" {budget} ")).join("|"));
        println!("|---{}|", "|---".repeat(BUDGETS.len()));
        let mut ours = [0.0; BUDGETS.len()];
        for (n, (name, cut)) in CUTS.into_iter().enumerate() {
            let shares = BUDGETS.map(|budget| corpus::share(&documents, weights, |text| cut(text, budget)));
            println!("| {name} |{} |", shares.map(|share| format!(" {:.1}% ", share * 100.0)).join("|"));
            if n == 0 {
                ours = shares;
                continue;
            }
            for (i, budget) in BUDGETS.into_iter().enumerate() {
                // If the whole text fits, every method keeps every fact.
                if shares[i] > ours[i] || shares[i] == ours[i] && shares[i] < 1.0 {
                    missed.push(format!("{name} is not worse than brief fit at {budget} tokens, {weights}"));
                }
            }
        }
        if weights == Weight::ByRank {
            for (budget, wanted) in BOUNDS {
                let at = BUDGETS.iter().position(|known| *known == budget).unwrap_or_default();
                if ours[at] < wanted {
                    let (is, wanted) = (ours[at] * 100.0, wanted * 100.0);
                    missed.push(format!("{is:.1}% at {budget} tokens, expected {wanted:.0}%"));
                }
            }
        }
    }
    missed.iter().for_each(|miss| println!("missed: {miss}"));
    if args.contains(&"--check") && !missed.is_empty() {
        bail!("{} bounds were missed", missed.len());
    }
    Ok(())
}

/// Prints one document at every budget, with the facts that are lost.
fn explain(part: CorpusPart, documents: &[Document], name: &str) -> Result<()> {
    let Some(document) = documents.iter().find(|document| document.name == name) else {
        bail!("no document {name} in {part}");
    };
    for budget in BUDGETS {
        let text = fitted(&document.text, budget);
        println!("\n=== {name} at {budget}: {} tokens\n{text}", TokenCounter::default().tokens(&text));
        for fact in document.facts.iter().filter(|fact| !fact.survives(&corpus::RetainedText::of(&text))) {
            println!("lost: {fact}");
        }
    }
    Ok(())
}
