//! What a tool call says about the conversation: a plan that the user approved, or the user's answers to
//! questions. Takes a tool's input and output, and returns changes. Reads the plan's file if the agent
//! reports only its path.

use std::path::{Path, PathBuf};

use milepost::internal::fs::bounded;
use milepost::model::Change;
use serde_json::Value;

use super::text;

/// Maximum size of a plan's file, in bytes.
const PLAN_FILE_LIMIT: u64 = 256 << 10;

/// How a tool reports a plan or answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TalkFormat {
    /// An approved plan in the field `plan` of the output or the input.
    Plan,
    /// The path of an approved plan, after `Plan approved: ` in the output.
    PlanPath,
    /// An explanation of the agent's own plan, in the field `explanation` of the input.
    Explanation,
    /// Answers keyed by the question, in the field `answers` of the output.
    AnswersByQuestion,
    /// Answers keyed by the question's id or index, in JSON text.
    AnswersById,
    /// A list of answers for each question, in the metadata of the output.
    AnswersInOrder,
}

/// A plan or an answer that a tool call reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Talk {
    Plan {
        text: String,
        is_approved: bool,
    },
    /// The path of an approved plan's file.
    PlanFile(PathBuf),
    Answer {
        question: String,
        text: String,
    },
}

impl Talk {
    pub(super) fn parse(format: TalkFormat, input: &Value, output: &Value) -> Vec<Self> {
        match format {
            TalkFormat::Plan => {
                let waits = output.get("awaitingLeaderApproval").and_then(Value::as_bool) == Some(true);
                let plan = text(output, "plan").or_else(|| text(input, "plan")).filter(|_| !waits);
                let plan = plan.map(|plan| Self::Plan { text: plan.to_owned(), is_approved: true });
                plan.into_iter().collect()
            }
            TalkFormat::PlanPath => {
                let name = text(input, "plan_filename").or_else(|| text(input, "plan_path"));
                let path =
                    text(output, "returnDisplay").and_then(|said| said.strip_prefix("Plan approved: "));
                let path = path.map(|path| PathBuf::from(path.trim()));
                // The input names the file that the agent wrote. Any other file is not the plan.
                let is_named = |path: &PathBuf| {
                    let name = name.and_then(|name| Path::new(name).file_name());
                    name.is_some() && path.file_name() == name && path.extension().is_some_and(|e| e == "md")
                };
                path.filter(is_named).map(Self::PlanFile).into_iter().collect()
            }
            TalkFormat::Explanation => {
                let plan = text(input, "explanation");
                plan.map(|plan| Self::Plan { text: plan.to_owned(), is_approved: false })
                    .into_iter()
                    .collect()
            }
            TalkFormat::AnswersByQuestion => {
                let answers =
                    output.get("answers").or_else(|| input.get("answers")).and_then(Value::as_object);
                let answer = |(question, answer): (&String, &Value)| answer_to(question, answer);
                answers.into_iter().flatten().filter_map(answer).collect()
            }
            TalkFormat::AnswersById => {
                let json = output.as_str().or_else(|| text(output, "llmContent"));
                let parsed: Option<Value> = json.and_then(|json| serde_json::from_str(json).ok());
                let answers = parsed.as_ref().and_then(|parsed| parsed.get("answers"));
                let of = |(index, question): (usize, &Value)| {
                    let id = text(question, "id").map_or_else(|| index.to_string(), str::to_owned);
                    answer_to(text(question, "question")?, answers?.get(id)?)
                };
                questions(input).iter().enumerate().filter_map(of).collect()
            }
            TalkFormat::AnswersInOrder => {
                let answers = output.get("metadata").and_then(|metadata| metadata.get("answers"));
                let of = |(index, question): (usize, &Value)| {
                    answer_to(text(question, "question")?, answers?.get(index)?)
                };
                questions(input).iter().enumerate().filter_map(of).collect()
            }
        }
    }

    /// Converts this to a change to the run.
    pub(super) fn into_change(self) -> Option<Change> {
        match self {
            Self::Plan { text, is_approved } => Some(Change::Plan { text, is_approved }),
            Self::PlanFile(path) => read_plan(&path),
            Self::Answer { question, text } => Some(Change::Answer { question, text }),
        }
    }
}

fn questions(input: &Value) -> &[Value] {
    input.get("questions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The answer to a question: a text, a list of texts, or an object with such a list.
fn answer_to(question: &str, answer: &Value) -> Option<Talk> {
    let answer = answer.get("answers").unwrap_or(answer);
    let text = match answer {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        _ => return None,
    };
    let is_answer = !text.trim().is_empty() && !question.trim().is_empty();
    is_answer.then(|| Talk::Answer { question: question.to_owned(), text })
}

fn read_plan(path: &Path) -> Option<Change> {
    let bytes = bounded::read(path, PLAN_FILE_LIMIT).ok()?;
    let text = String::from_utf8(bytes).ok().filter(|text| !text.trim().is_empty())?;
    Some(Change::Plan { text, is_approved: true })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(question: &str, text: &str) -> Vec<Talk> {
        vec![Talk::Answer { question: question.to_owned(), text: text.to_owned() }]
    }

    #[test]
    fn answers_are_found_in_the_form_of_each_agent() {
        let questions = json!({"questions": [{"id": "store", "question": "Which store?"}]});
        let indexed = json!({"questions": [{"question": "Which store?"}]});
        for (format, input, output) in [
            (TalkFormat::AnswersByQuestion, &questions, json!({"answers": {"Which store?": "SQLite"}})),
            (TalkFormat::AnswersById, &questions, json!(r#"{"answers":{"store":{"answers":["SQLite"]}}}"#)),
            (TalkFormat::AnswersById, &indexed, json!({"llmContent": r#"{"answers":{"0":"SQLite"}}"#})),
            (TalkFormat::AnswersInOrder, &questions, json!({"metadata": {"answers": [["SQLite"]]}})),
        ] {
            assert_eq!(Talk::parse(format, input, &output), answer("Which store?", "SQLite"), "{output}");
        }
        for output in
            [json!({"llmContent": "User dismissed ask_user dialog"}), json!({"answers": {}}), json!(3)]
        {
            for format in [TalkFormat::AnswersByQuestion, TalkFormat::AnswersById, TalkFormat::AnswersInOrder]
            {
                assert_eq!(Talk::parse(format, &questions, &output), [], "{output}");
            }
        }
    }

    #[test]
    fn only_approved_plans_count() {
        let plan = Talk::parse(TalkFormat::Plan, &json!({"plan": "old"}), &json!({"plan": "# Do it"}));
        assert_eq!(plan, [Talk::Plan { text: "# Do it".into(), is_approved: true }]);
        let waiting = json!({"plan": "x", "awaitingLeaderApproval": true});
        assert_eq!(Talk::parse(TalkFormat::Plan, &json!({}), &waiting), []);
        let input = json!({"plan_filename": "p.md"});
        let approved = json!({"returnDisplay": "Plan approved: /home/u/plans/p.md"});
        let found = Talk::parse(TalkFormat::PlanPath, &input, &approved);
        assert_eq!(found, [Talk::PlanFile("/home/u/plans/p.md".into())]);
        for display in ["Plan approved: /etc/passwd", "Rejected (no feedback)", "Feedback: no"] {
            assert_eq!(Talk::parse(TalkFormat::PlanPath, &input, &json!({"returnDisplay": display})), []);
        }
    }
}
