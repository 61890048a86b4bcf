//! An agent's own to-do list, as its tools write it: whole, or entry by entry.

use milepost::model::{Change, Item, Task, TaskChange, TaskStatus};
use serde_json::Value;

/// What happened to a to-do list.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Todo {
    /// It is this now: what is to be done, and how that stands.
    List(Vec<(String, String)>),
    /// An entry was added, under the agent's number.
    Added { id: String, what: String },
    /// An entry stands so now.
    Changed { id: String, status: String, what: Option<String> },
}

impl Todo {
    /// Reads what went into a tool and what came out of it; `None` if the tool is not about a to-do list.
    pub(super) fn of(tool: &str, input: &Value, output: &Value) -> Option<Self> {
        let list = match tool.to_ascii_lowercase().as_str() {
            "todowrite" | "write_todos" | "todo_write" => input.get("todos")?,
            "update_plan" => input.get("plan")?,
            "taskcreate" => {
                let task = output.get("task").unwrap_or(output);
                let what = text(task, "subject").or_else(|| text(input, "subject"))?;
                return Some(Self::Added { id: number(task.get("id")?)?, what: what.to_owned() });
            }
            "taskupdate" => {
                let what = text(input, "subject").map(str::to_owned);
                let status = text(input, "status")?.to_owned();
                return Some(Self::Changed { id: number(input.get("taskId")?)?, status, what });
            }
            _ => return None,
        };
        let item = |value: &Value| {
            let what = ["content", "description", "step", "title", "text"]
                .iter()
                .find_map(|key| text(value, key))?;
            Some((what.to_owned(), text(value, "status").unwrap_or("pending").to_owned()))
        };
        Some(Self::List(list.as_array()?.iter().filter_map(item).collect()))
    }

    /// What a run keeps of it.
    pub(super) fn change(self) -> Option<Change> {
        let id = |number: &str| format!("todo-{number}");
        match self {
            Self::List(list) => {
                let task = |(n, (what, status)): (usize, &(String, String))| {
                    Task::todo(&id(&n.to_string()), standing(status).as_str(), what).ok()
                };
                Some(Change::Item(Item::Todo((1..).zip(&list).filter_map(task).collect())))
            }
            // The first of a list: one that was taken over from an earlier session goes, as where lists are written whole.
            Self::Added { id: number, what } => {
                let task = Task::todo(&id(&number), TaskStatus::Pending.as_str(), &what).ok()?;
                Some(Change::Item(if number == "1" { Item::Todo(vec![task]) } else { Item::Task(task) }))
            }
            Self::Changed { id: number, status, what } => {
                Some(Change::Task(TaskChange { id: id(&number), status: standing(&status), title: what }))
            }
        }
    }
}

fn standing(word: &str) -> TaskStatus {
    match word {
        "completed" | "done" => TaskStatus::Completed,
        "in_progress" => TaskStatus::InProgress,
        "cancelled" | "canceled" | "deleted" => TaskStatus::Skipped,
        _ => TaskStatus::Pending,
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// A number, given as one or as text. Longer ones would be no number of a list's.
fn number(value: &Value) -> Option<String> {
    let number = value.as_str().map(str::to_owned).or_else(|| value.as_u64().map(|n| n.to_string()))?;
    (1..=64).contains(&number.len()).then_some(number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_of_four_agents() {
        let of = |name: &str, input: Value| Todo::of(name, &input, &Value::Null).unwrap();
        let pairs = [("a", "pending"), ("b", "completed")];
        let expected = Todo::List(pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec());
        let list = |key: &str| json!([{key: "a", "status": "pending"}, {key: "b", "status": "completed"}]);
        assert_eq!(of("TodoWrite", json!({"todos": list("content")})), expected);
        assert_eq!(of("update_plan", json!({"plan": list("step")})), expected);
        assert_eq!(of("write_todos", json!({"todos": list("description")})), expected);
        assert_eq!(of("todowrite", json!({"todos": list("content")})), expected);
        assert!(Todo::of("TodoWrite", &json!({"todos": 3}), &Value::Null).is_none());
    }

    #[test]
    fn entries_one_by_one() {
        let added = |id: &str| {
            let output = json!({"task": {"id": id, "subject": "a"}});
            Todo::of("TaskCreate", &json!({"subject": "a", "description": "d"}), &output)?.change()
        };
        assert!(matches!(added("1"), Some(Change::Item(Item::Todo(list))) if list[0].id() == "todo-1"));
        assert!(matches!(added("2"), Some(Change::Item(Item::Task(task))) if task.is_todo()));
        let changed = |input: Value| Todo::of("TaskUpdate", &input, &json!({"success": true}))?.change();
        let expected = TaskChange { id: "todo-2".into(), status: TaskStatus::Skipped, title: None };
        assert_eq!(changed(json!({"taskId": "2", "status": "deleted"})), Some(Change::Task(expected)));
        assert_eq!(changed(json!({"taskId": "2", "owner": "me"})), None);
        assert_eq!(changed(json!({"taskId": "", "status": "completed"})), None);
    }
}
