//! Results: counts facts by class for each agent and method, prints them as tables, and checks the bounds.

use std::collections::BTreeMap;

use super::agents::AgentKind;
use super::grade::Grade;
use super::story::FactClass;

/// The name of Milepost's own row.
pub const MILEPOST: &str = "milepost";

/// Found and expected facts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub found: usize,
    pub all: usize,
}

impl Count {
    pub fn share(self) -> f64 {
        if self.all == 0 { 1.0 } else { self.found as f64 / self.all as f64 }
    }

    fn plus(self, other: Self) -> Self {
        Self { found: self.found + other.found, all: self.all + other.all }
    }
}

/// The results of one method over all stories.
#[derive(Debug, Clone, Default)]
pub struct Row {
    facts: BTreeMap<FactClass, Count>,
    stale: usize,
    characters: usize,
    texts: usize,
}

impl Row {
    pub fn add(&mut self, grade: &Grade<'_>, text: &str) {
        for (fact, is_there) in &grade.facts {
            let count = self.facts.entry(fact.class).or_default();
            *count = count.plus(Count { found: usize::from(*is_there), all: 1 });
        }
        self.stale += grade.stale.len();
        self.characters += text.chars().count();
        self.texts += 1;
    }

    fn count(&self, classes: &[FactClass]) -> Count {
        let count = |class| self.facts.get(class).copied().unwrap_or_default();
        classes.iter().map(count).fold(Count::default(), Count::plus)
    }
}

/// The rows of one agent: Milepost first, then the comparisons.
pub type Rows = Vec<(&'static str, Row)>;

pub fn print(agent: AgentKind, rows: &Rows) {
    let names = FactClass::ALL.map(FactClass::name).join(" | ");
    println!("\n| {agent} | {names} | stale | characters |");
    println!("|---{}|---|---|", "|---".repeat(FactClass::ALL.len()));
    for (name, row) in rows {
        let cells = FactClass::ALL.map(|class| {
            let count = row.count(&[class]);
            match count.all {
                0 => "none".to_owned(),
                all => format!("{:.1}% ({}/{all})", count.share() * 100.0, count.found),
            }
        });
        let mean = row.characters / row.texts.max(1);
        println!("| {name} | {} | {} | {mean} |", cells.join(" | "), row.stale);
    }
}

/// Classes that share a bound, and the minimum share of facts found for Claude Code and Gemini, and for
/// Codex.
const BOUNDS: [(&str, &[FactClass], f64, f64); 4] = [
    ("constraints", &[FactClass::Constraint], 0.97, 0.92),
    ("failures", &[FactClass::Failure], 0.95, 0.90),
    ("to-dos and decisions", &[FactClass::Todo, FactClass::Decision], 0.95, 0.90),
    ("files", &[FactClass::File], 0.90, 0.80),
];

/// Classes in which Milepost must be ahead of every comparison, unless both are complete.
const AHEAD: [FactClass; 2] = [FactClass::Constraint, FactClass::Failure];

/// The bounds that the results of an agent miss. OpenCode has none except that nothing stale is presented as
/// current: it cuts nothing, and it does not report that the user left a session for a new one.
pub fn missed(agent: AgentKind, rows: &Rows) -> Vec<String> {
    let Some((_, own)) = rows.iter().find(|(name, _)| *name == MILEPOST) else { return Vec::new() };
    let mut missed = Vec::new();
    for (name, classes, usual, codex) in BOUNDS {
        let wanted = match agent {
            AgentKind::ClaudeCode | AgentKind::Gemini => usual,
            AgentKind::Codex => codex,
            AgentKind::OpenCode => continue,
        };
        let is = own.count(classes).share();
        if is < wanted {
            let (is, wanted) = (is * 100.0, wanted * 100.0);
            missed.push(format!("{agent}: {is:.1}% of the {name} arrive, expected {wanted:.0}%"));
        }
    }
    let others = rows.iter().filter(|(name, _)| *name != MILEPOST && agent != AgentKind::OpenCode);
    for (name, other) in others {
        for class in FactClass::ALL {
            let (is, theirs) = (own.count(&[class]).share(), other.count(&[class]).share());
            if theirs > is {
                missed.push(format!("{agent}: \"{name}\" is ahead in the class {}", class.name()));
            } else if theirs == is && is < 1.0 && AHEAD.contains(&class) {
                missed.push(format!("{agent}: \"{name}\" is not behind in the class {}", class.name()));
            }
        }
    }
    if own.stale > 0 {
        missed.push(format!("{agent}: {} stale facts are presented as current", own.stale));
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(found: [usize; 6], stale: usize) -> Row {
        let facts = FactClass::ALL.into_iter().zip(found.map(|found| Count { found, all: 100 }));
        Row { facts: facts.collect(), stale, ..Row::default() }
    }

    #[test]
    fn bounds_depend_on_the_agent() {
        let rows = |found, other| vec![(MILEPOST, row(found, 0)), ("other", row(other, 9))];
        let fine = rows([97, 95, 94, 96, 90, 0], [96, 94, 90, 0, 90, 0]);
        assert_eq!(missed(AgentKind::ClaudeCode, &fine), [] as [String; 0]);
        let low = rows([96, 94, 90, 90, 89, 0], [0; 6]);
        assert_eq!(missed(AgentKind::Gemini, &low).len(), 4);
        assert_eq!(missed(AgentKind::Codex, &low), [] as [String; 0]);
        assert_eq!(missed(AgentKind::OpenCode, &low), [] as [String; 0]);
    }

    #[test]
    fn a_comparison_must_not_be_ahead() {
        let rows = |other| vec![(MILEPOST, row([98, 98, 98, 98, 98, 98], 0)), ("other", row(other, 0))];
        assert_eq!(missed(AgentKind::Codex, &rows([97, 97, 98, 98, 98, 98])), [] as [String; 0]);
        assert_eq!(missed(AgentKind::Codex, &rows([98, 97, 98, 98, 98, 98])).len(), 1);
        assert_eq!(missed(AgentKind::Codex, &rows([97, 97, 98, 98, 98, 99])).len(), 1);
        let stale = vec![(MILEPOST, row([100; 6], 1))];
        assert_eq!(missed(AgentKind::Codex, &stale), ["codex: 1 stale facts are presented as current"]);
    }
}
