//! `cargo xtask api`: measures the size of the library's public API. Takes rustdoc's JSON output, prints the
//! counts, and fails if a count exceeds its bound. Trait methods and fields of enum variants are not counted.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::shell::{cargo, root, run_program};

/// The library's main type, whose methods are counted.
const MAIN_TYPE: &str = "Milepost";

/// The counts and their upper bounds.
const BOUNDS: [(&str, usize); 3] =
    [("public types", 198), ("public fields", 249), ("methods of Milepost", 47)];

pub fn run() -> Result<()> {
    let mut rustdoc = cargo();
    rustdoc.args(["rustdoc", "--quiet", "--package", "milepost", "--lib", "--"]);
    rustdoc.args(["-Zunstable-options", "--output-format", "json"]).env("RUSTC_BOOTSTRAP", "1");
    run_program(&mut rustdoc)?;
    let path = root().join("target/doc/milepost.json");
    let document: Value =
        serde_json::from_slice(&std::fs::read(&path).context("cannot read rustdoc's JSON output")?)?;
    let mut api = Api { index: &document["index"], counted: BTreeSet::new(), fields: 0, methods: 0 };
    api.visit(&document["root"]);
    let mut exceeded = Vec::new();
    for ((name, bound), count) in BOUNDS.into_iter().zip([api.counted.len(), api.fields, api.methods]) {
        println!("{name}: {count} (at most {bound})");
        if count > bound {
            exceeded.push(name);
        }
    }
    ensure!(exceeded.is_empty(), "bounds exceeded: {}", exceeded.join(", "));
    Ok(())
}

/// Walks public items from the root, through modules and re-exports.
struct Api<'a> {
    index: &'a Value,
    counted: BTreeSet<String>,
    fields: usize,
    methods: usize,
}

impl<'a> Api<'a> {
    fn item(&self, id: &Value) -> Option<&'a Value> {
        self.index.get(id.to_string())
    }

    fn is_public(&self, id: &Value) -> bool {
        self.item(id).is_some_and(|item| item["visibility"] == "public")
    }

    fn visit(&mut self, id: &Value) {
        let Some(item) = self.item(id).filter(|_| self.is_public(id)) else { return };
        let Some((kind, inner)) = item["inner"].as_object().and_then(|inner| inner.iter().next()) else {
            return;
        };
        match kind.as_str() {
            "module" => inner["items"].as_array().into_iter().flatten().for_each(|id| self.visit(id)),
            "use" => self.visit(&inner["id"]),
            "struct" | "enum" | "trait" | "union" | "type_alias" if self.counted.insert(id.to_string()) => {
                let kind = &inner["kind"];
                let fields = kind["plain"]["fields"].as_array().or_else(|| kind["tuple"].as_array());
                self.fields += fields.into_iter().flatten().filter(|field| self.is_public(field)).count();
                if item["name"] == MAIN_TYPE {
                    self.methods = self.count_methods(inner);
                }
            }
            _ => {}
        }
    }

    /// Counts the public functions of inherent impl blocks.
    fn count_methods(&self, inner: &Value) -> usize {
        let blocks = inner["impls"].as_array().into_iter().flatten().filter_map(|id| self.item(id));
        let own = blocks.map(|block| &block["inner"]["impl"]).filter(|block| block["trait"].is_null());
        own.flat_map(|block| block["items"].as_array().into_iter().flatten())
            .filter(|id| {
                self.is_public(id) && self.item(id).is_some_and(|item| !item["inner"]["function"].is_null())
            })
            .count()
    }
}
