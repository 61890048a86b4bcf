//! The resources: the latest brief and every run. Defines their addresses, and lists them in pages.

use rmcp::model::{Resource, ResourceTemplate};
use serde_json::Value;

use crate::handler::Call;

/// The address of the latest brief.
pub(crate) const BRIEF: &str = "milepost://brief/latest";
/// The prefix of the addresses of runs.
const RUN: &str = "milepost://run/";
/// Number of runs on one page of the list.
const PAGE: usize = 100;

/// The call that returns a resource, and its MIME type.
pub(crate) struct Kind {
    pub(crate) call: Call,
    pub(crate) mime: &'static str,
}

/// The resource at an address.
pub(crate) fn at(uri: &str) -> Option<Kind> {
    if uri == BRIEF {
        return Some(Kind { call: Call::LatestBrief, mime: "text/markdown" });
    }
    let run = uri.strip_prefix(RUN).filter(|run| !run.is_empty())?;
    // The text is a record between markers, and its content is JSON.
    Some(Kind { call: Call::Run(run.to_owned()), mime: "text/plain" })
}

/// One page of resources from the document that lists the runs, and the start of the next page.
pub(crate) fn page(document: &Value, from: usize) -> (Vec<Resource>, Option<usize>) {
    let runs = document["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rest = runs.get(from..).unwrap_or_default();
    let mut found: Vec<_> = if from == 0 { vec![brief()] } else { Vec::new() };
    found.extend(rest.iter().take(PAGE).filter_map(run));
    (found, (rest.len() > PAGE).then_some(from + PAGE))
}

/// The latest brief.
pub(crate) fn brief() -> Resource {
    Resource::new(BRIEF, "latest brief")
        .with_title("The brief of the latest checkpoint")
        .with_description("What the next session needs to know, in Markdown")
        .with_mime_type("text/markdown")
}

fn run(run: &Value) -> Option<Resource> {
    let id = run["run_id"].as_str()?;
    let status = run["status"].as_str().unwrap_or("damaged");
    // No title: recorded text is returned only between the markers of a record.
    let resource = Resource::new(format!("{RUN}{id}"), id);
    let about = format!("{status}, {} checkpoints", run["checkpoints"].as_u64().unwrap_or_default());
    Some(resource.with_description(about).with_mime_type("text/plain"))
}

/// The template of the addresses of runs.
pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new(format!("{RUN}{{run_id}}"), "run")
        .with_description("One run in full: its tasks, decisions, log, step and outcomes")
        .with_mime_type("text/plain")
}
