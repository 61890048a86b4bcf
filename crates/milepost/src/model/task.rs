//! One task of a plan: the caller's JSON object, stored verbatim. A subtask is addressed as `PARENT/CHILD`.
//! It is either a task with that id or the entry CHILD in the `subtasks` member of its parent.

use super::{FromRawJson, JsonPath, RawJson, RawObject, TaskStatus, ValidationError};

/// The member that contains a task's subtasks.
const SUBTASKS: &str = "subtasks";
/// The member that names the origin of a task.
const ORIGIN: &str = "origin";

/// One task of a plan: the caller's JSON object, with its members verbatim and in their original order.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    id: String,
    status: String,
    fields: RawObject,
}

impl Task {
    /// Creates a task with an id, a status and an optional title.
    pub fn new(id: &str, status: &str, title: Option<&str>) -> Result<Self, ValidationError> {
        let mut fields = RawObject::default();
        fields.set("id", RawJson::of(id)?);
        if let Some(title) = title {
            fields.set("title", RawJson::of(title)?);
        }
        fields.set("status", RawJson::of(status)?);
        Ok(Self { id: id.to_owned(), status: status.to_owned(), fields })
    }

    /// Creates a task for an item of an agent's to-do list.
    pub fn todo(id: &str, status: &str, title: &str) -> Result<Self, ValidationError> {
        let mut task = Self::new(id, status, Some(title))?;
        task.fields.set(ORIGIN, RawJson::of("todo")?);
        Ok(task)
    }

    /// Returns true if the task is an item of an agent's to-do list.
    pub fn is_todo(&self) -> bool {
        self.fields.get(ORIGIN).is_some_and(|raw| raw.get() == "\"todo\"")
    }

    /// Returns the id of the task within the run.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the status exactly as the caller wrote it.
    pub fn status(&self) -> &str {
        &self.status
    }

    /// Returns the title, if the task has one.
    pub fn title(&self) -> Option<String> {
        self.fields.get("title").and_then(|raw| serde_json::from_str(raw.get()).ok())
    }

    /// Sets the status, and the title if given. All other members and the order of members do not change.
    pub fn update(&mut self, status: &str, title: Option<&str>) -> Result<(), ValidationError> {
        self.fields.set("status", RawJson::of(status)?);
        self.status = status.to_owned();
        if let Some(title) = title {
            self.fields.set("title", RawJson::of(title)?);
        }
        Ok(())
    }

    /// Returns true if the task ended successfully.
    pub fn is_completed(&self) -> bool {
        matches!(self.status.as_str(), "done" | "completed" | "complete")
    }

    /// Returns true if the task failed.
    pub fn is_failed(&self) -> bool {
        self.status == "failed"
    }

    /// Returns true if the task has this status. All statuses that mean success are equivalent.
    pub fn is(&self, status: TaskStatus) -> bool {
        match status {
            TaskStatus::Done | TaskStatus::Completed => self.is_completed(),
            other => self.status == other.as_str(),
        }
    }

    /// Returns true if the task has succeeded, failed or been skipped.
    pub fn has_ended(&self) -> bool {
        self.is_completed() || self.is_failed() || self.status == "skipped"
    }

    /// Returns the entries of the `subtasks` member that are objects with an id and a status.
    pub fn subtasks(&self) -> Vec<Self> {
        self.elements().iter().filter_map(Self::subtask).collect()
    }

    /// Returns all entries of the `subtasks` member, valid or not.
    fn elements(&self) -> Vec<RawJson> {
        let raw = self.fields.get(SUBTASKS);
        raw.and_then(|raw| Vec::from_raw(raw.get(), &JsonPath::Root).ok()).unwrap_or_default()
    }

    fn subtask(element: &RawJson) -> Option<Self> {
        Self::from_raw(element.get(), &JsonPath::Root).ok()
    }

    /// Replaces the entry of `subtasks` that has the same id. The other entries do not change.
    fn set_subtask(&mut self, subtask: &Self) -> Result<(), ValidationError> {
        let mut all = self.elements();
        let same = |element: &&mut RawJson| Self::subtask(element).is_some_and(|old| old.id == subtask.id);
        if let Some(old) = all.iter_mut().find(same) {
            *old = RawJson::of(subtask)?;
        }
        self.fields.set(SUBTASKS, RawJson::of(&all)?);
        Ok(())
    }

    /// Finds the subtask `id` inside its parent and returns both. Tries every slash as the separator, because
    /// ids can contain slashes.
    fn find_nested(tasks: &[Self], id: &str) -> Option<(Self, Self)> {
        id.match_indices('/').find_map(|(at, _)| {
            let (parent, child) = (id.get(..at)?, id.get(at + 1..)?);
            let parent = tasks.iter().find(|task| task.id == parent)?;
            let child = parent.subtasks().into_iter().find(|task| task.id == child)?;
            Some((parent.clone(), child))
        })
    }

    /// Finds a task by its id, or a subtask by `PARENT/CHILD`.
    pub fn find(tasks: &[Self], id: &str) -> Option<Self> {
        let task = tasks.iter().find(|task| task.id == id).cloned();
        task.or_else(|| Self::find_nested(tasks, id).map(|(_, subtask)| subtask))
    }

    /// Returns the task to record after the status of `id` changes. For a subtask inside its parent, this is
    /// the updated parent. If no such task exists, this is a new task.
    pub fn changed(
        tasks: &[Self],
        id: &str,
        status: TaskStatus,
        title: Option<&str>,
    ) -> Result<Self, ValidationError> {
        if let Some(task) = tasks.iter().find(|task| task.id == id) {
            let mut task = task.clone();
            task.update(status.as_str(), title)?;
            return Ok(task);
        }
        match Self::find_nested(tasks, id) {
            Some((mut parent, mut child)) => {
                child.update(status.as_str(), title)?;
                parent.set_subtask(&child)?;
                Ok(parent)
            }
            None => Self::new(id, status.as_str(), title),
        }
    }

    /// Returns the ids of the tasks and subtasks for which `holds` returns true, in order.
    pub fn ids(tasks: &[Self], holds: fn(&Self) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        for task in tasks {
            if holds(task) {
                found.push(task.id.clone());
            }
            let inside = task.subtasks().into_iter().filter(holds);
            found.extend(inside.map(|subtask| format!("{}/{}", task.id, subtask.id)));
        }
        found
    }
}

impl FromRawJson for Task {
    fn from_raw(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError> {
        let fields = RawObject::parse(text, path)?;
        let text = |name: &str| match fields.get(name) {
            Some(raw) => String::from_raw(raw.get(), &path.key(name)),
            None => Err(ValidationError::at(&path.key(name), "is missing")),
        };
        Ok(Self { id: text("id")?, status: text("status")?, fields })
    }
}

super::json::deserialize_from_raw!(Task);

impl serde::Serialize for Task {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields.serialize(serializer)
    }
}

impl schemars::JsonSchema for Task {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Task".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "One task of a plan; additional members are kept verbatim.",
            "type": "object",
            "properties": {
                "id": { "type": "string" },
                "title": { "type": "string" },
                "status": { "type": "string" }
            },
            "required": ["id", "status"],
            "additionalProperties": true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_keeps_its_members_in_order() {
        let text = r#"{"id":"t1","agent":"MARS","n":1.0,"status":"pending","big":9007199254740993}"#;
        let mut task = Task::from_raw(text, &JsonPath::Root).unwrap();
        assert_eq!(serde_json::to_string(&task).unwrap(), text);
        task.update("done", None).unwrap();
        assert_eq!(serde_json::to_string(&task).unwrap(), text.replace("pending", "done"));
        assert!(task.is_completed());
    }

    #[test]
    fn a_subtask_is_found_and_changed_inside_its_parent() {
        let text = r#"{"id":"t","status":"pending","subtasks":[{"id":"a","n":1.0,"status":"pending"},{"id":"b","status":"done"}],"z":-0.0}"#;
        let tasks = [Task::from_raw(text, &JsonPath::Root).unwrap()];
        assert_eq!(Task::find(&tasks, "t/b").unwrap().status(), "done");
        assert!(Task::find(&tasks, "t/c").is_none() && Task::find(&tasks, "u/a").is_none());
        let changed = Task::changed(&tasks, "t/a", TaskStatus::Failed, None).unwrap();
        let expected = text.replacen(r#""n":1.0,"status":"pending""#, r#""n":1.0,"status":"failed""#, 1);
        assert_eq!(serde_json::to_string(&changed).unwrap(), expected);
        assert_eq!(Task::ids(std::slice::from_ref(&changed), Task::is_failed), ["t/a"]);
        assert_eq!(Task::ids(&[changed], Task::is_completed), ["t/b"]);
        // Invalid entries hide no subtask and are preserved. The id of a parent can contain a slash.
        let text = r#"{"id":"p/q","status":"pending","subtasks":["x",{"id":"no status"},{"id":"a","status":"pending"}]}"#;
        let odd = [Task::from_raw(text, &JsonPath::Root).unwrap()];
        let changed = Task::changed(&odd, "p/q/a", TaskStatus::Done, None).unwrap();
        let expected = text.replace(r#""a","status":"pending""#, r#""a","status":"done""#);
        assert_eq!(serde_json::to_string(&changed).unwrap(), expected);
        for id in Task::ids(std::slice::from_ref(&changed), Task::is_completed) {
            assert!(Task::find(std::slice::from_ref(&changed), &id).is_some(), "{id} is found by its name");
        }
        assert_eq!(Task::ids(&[changed], Task::is_completed), ["p/q/a"]);
        // An id that is not an entry of the parent creates a separate task.
        assert_eq!(Task::changed(&tasks, "t/new", TaskStatus::Done, None).unwrap().id(), "t/new");
    }
}
