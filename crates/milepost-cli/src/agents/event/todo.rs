//! Changes to an agent's own to-do list. A tool replaces the whole list, or adds or updates one entry. Takes
//! a tool's input and output, and returns a change to the run's tasks.

use milepost::model::{Change, Item, Task, TaskChange, TaskStatus};
use serde_json::Value;

use super::text;
use crate::agents::ToolNames;

/// How a tool changes the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TodoFormat {
    /// It replaces the list with the one in this field of its input.
    List(&'static str),
    /// It shows the whole new list in its output.
    Displayed,
    /// It adds an entry. Its output contains the entry's number.
    Create,
    /// It changes the entry with the number in its input.
    Update,
}

/// A change to a to-do list.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TodoChange {
    /// The whole new list, as titles and states.
    List(Vec<(String, String)>),
    /// An entry was added. `id` is the agent's number for it.
    Added {
        id: String,
        title: String,
    },
    Updated {
        id: String,
        status: String,
        title: Option<String>,
    },
}

impl TodoChange {
    /// Parses a tool's input and output. Returns `None` if the tool, named in lower case, does not change a
    /// to-do list.
    pub(super) fn parse(tools: &ToolNames, tool: &str, input: &Value, output: &Value) -> Option<Self> {
        let list = match tools.todo.iter().find(|(name, _)| *name == tool)?.1 {
            TodoFormat::List(field) => input.get(field)?,
            TodoFormat::Displayed => output.get("returnDisplay")?.get("todos")?,
            TodoFormat::Create => {
                let task = output.get("task").unwrap_or(output);
                let title = text(task, "subject").or_else(|| text(input, "subject"))?.to_owned();
                return Some(Self::Added { id: number(task.get("id")?)?, title });
            }
            TodoFormat::Update => {
                let title = text(input, "subject").map(str::to_owned);
                let status = text(input, "status")?.to_owned();
                return Some(Self::Updated { id: number(input.get("taskId")?)?, status, title });
            }
        };
        let item = |value: &Value| {
            let title = ["content", "description", "step", "title", "text"]
                .iter()
                .find_map(|key| text(value, key))?;
            Some((title.to_owned(), text(value, "status").unwrap_or("pending").to_owned()))
        };
        Some(Self::List(list.as_array()?.iter().filter_map(item).collect()))
    }

    /// Converts this to a change to the run's tasks.
    pub(super) fn into_change(self) -> Option<Change> {
        let id = |number: &str| format!("todo-{number}");
        match self {
            Self::List(list) => {
                let task = |(n, (title, status)): (usize, &(String, String))| {
                    Task::todo(&id(&n.to_string()), task_status(status).as_str(), title).ok()
                };
                Some(Change::Item(Item::Todo((1..).zip(&list).filter_map(task).collect())))
            }
            // The first entry starts a new list, which replaces the list of an earlier session.
            Self::Added { id: number, title } => {
                let task = Task::todo(&id(&number), TaskStatus::Pending.as_str(), &title).ok()?;
                Some(Change::Item(if number == "1" { Item::Todo(vec![task]) } else { Item::Task(task) }))
            }
            Self::Updated { id: number, status, title } => {
                Some(Change::Task(TaskChange { id: id(&number), status: task_status(&status), title }))
            }
        }
    }
}

fn task_status(word: &str) -> TaskStatus {
    match word {
        "completed" | "done" => TaskStatus::Completed,
        "in_progress" => TaskStatus::InProgress,
        "cancelled" | "canceled" | "deleted" => TaskStatus::Skipped,
        _ => TaskStatus::Pending,
    }
}

/// Reads an entry's number, written as a number or a string. Rejects empty and overlong strings.
fn number(value: &Value) -> Option<String> {
    let number = value.as_str().map(str::to_owned).or_else(|| value.as_u64().map(|n| n.to_string()))?;
    (1..=64).contains(&number.len()).then_some(number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agents::find_agent;

    fn claude() -> &'static ToolNames {
        &find_agent("claude-code").unwrap().tools
    }

    #[test]
    fn lists_of_four_agents() {
        let of = |agent: &str, name: &str, input: Value| {
            let tools = &find_agent(agent).unwrap().tools;
            TodoChange::parse(tools, name, &input, &Value::Null).unwrap()
        };
        let pairs = [("a", "pending"), ("b", "completed")];
        let expected = TodoChange::List(pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec());
        let list = |key: &str| json!([{key: "a", "status": "pending"}, {key: "b", "status": "completed"}]);
        assert_eq!(of("claude-code", "todowrite", json!({"todos": list("content")})), expected);
        assert_eq!(of("codex", "update_plan", json!({"plan": list("step")})), expected);
        assert_eq!(of("gemini", "write_todos", json!({"todos": list("description")})), expected);
        assert_eq!(of("opencode", "todowrite", json!({"todos": list("content")})), expected);
        assert!(TodoChange::parse(claude(), "todowrite", &json!({"todos": 3}), &Value::Null).is_none());
    }

    #[test]
    fn entries_one_by_one() {
        let added = |id: &str| {
            let output = json!({"task": {"id": id, "subject": "a"}});
            TodoChange::parse(claude(), "taskcreate", &json!({"subject": "a", "description": "d"}), &output)?
                .into_change()
        };
        assert!(matches!(added("1"), Some(Change::Item(Item::Todo(list))) if list[0].id() == "todo-1"));
        assert!(matches!(added("2"), Some(Change::Item(Item::Task(task))) if task.is_todo()));
        let changed = |input: Value| {
            TodoChange::parse(claude(), "taskupdate", &input, &json!({"success": true}))?.into_change()
        };
        let expected = TaskChange { id: "todo-2".into(), status: TaskStatus::Skipped, title: None };
        assert_eq!(changed(json!({"taskId": "2", "status": "deleted"})), Some(Change::Task(expected)));
        assert_eq!(changed(json!({"taskId": "2", "owner": "me"})), None);
        assert_eq!(changed(json!({"taskId": "", "status": "completed"})), None);
    }
}
