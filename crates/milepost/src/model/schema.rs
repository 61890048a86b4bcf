//! Generates the JSON Schema of a stored checkpoint: the body and the seal that Milepost adds to it.

use super::Body;

/// Returns the JSON Schema of a stored checkpoint.
pub fn schema() -> schemars::Schema {
    let mut schema = schemars::schema_for!(Body);
    let members = schema.ensure_object();
    if let Some(properties) = members.get_mut("properties").and_then(|p| p.as_object_mut()) {
        let seal = serde_json::json!({
            "description": "The seal, the last member of the document; set by Milepost, never by a caller.",
            "type": "object",
            "properties": {
                "format_version": { "type": "integer", "minimum": 1 },
                "algorithm": { "const": "sha256" },
                "checksum": { "type": "string" }
            },
            "required": ["format_version", "algorithm", "checksum"]
        });
        properties.insert("integrity".to_owned(), seal);
    }
    if let Some(required) = members.get_mut("required").and_then(|r| r.as_array_mut()) {
        required.push("integrity".into());
    }
    schema
}
