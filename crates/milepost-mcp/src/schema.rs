//! Generates JSON Schemas in the plain form that agents support: no references, one type per member, and
//! enums as lists of values.

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The schema of a tool's arguments. Optional members may be omitted but must not be null.
pub(crate) fn of_arguments<T: JsonSchema>() -> JsonObject {
    let mut schema = of_document::<T>();
    schema.values_mut().for_each(plain);
    schema
}

/// The schema of a tool's result.
pub(crate) fn of_document<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    match schema {
        Value::Object(mut members) => {
            // The tool has its own description.
            members.remove("title");
            members.remove("description");
            members
        }
        _ => Map::new(),
    }
}

/// Joins the lines of descriptions, and removes number formats, which agents do not need.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(text)) = members.get_mut("description") {
                *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            }
            if members.get("type") != Some(&json!("string")) {
                members.remove("format");
            }
            members.values_mut().for_each(tidy);
        }
        Value::Array(elements) => elements.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn plain(value: &mut Value) {
    if let Value::Object(members) = value {
        without_null(members);
        flatten_choice(members);
        members.values_mut().for_each(plain);
        members.remove("default");
    } else if let Value::Array(elements) = value {
        elements.iter_mut().for_each(plain);
    }
}

/// Replaces `X or null` with `X`.
fn without_null(members: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".into(), only);
        }
    }
    let Some(Value::Array(choices)) = members.get_mut("anyOf") else { return };
    choices.retain(|choice| choice.get("type") != Some(&json!("null")));
    if let [Value::Object(only)] = choices.as_slice() {
        let only = only.clone();
        members.remove("anyOf");
        for (name, value) in only {
            members.entry(name).or_insert(value);
        }
    }
}

/// Replaces a choice of constants, each with its description, with a plain list of values.
fn flatten_choice(members: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = members.get("oneOf") else { return };
    let values: Option<Vec<Value>> = choices.iter().map(|choice| choice.get("const").cloned()).collect();
    if let Some(values) = values {
        members.remove("oneOf");
        members.insert("type".into(), json!("string"));
        members.insert("enum".into(), Value::Array(values));
    }
}
