//! Resources: the latest brief, and each run. Their addresses, and the list of them.

use rmcp::model::{Resource, ResourceTemplate};
use serde_json::Value;

use crate::handler::Call;

/// The address of the latest brief.
pub(crate) const BRIEF: &str = "milepost://brief/latest";
/// How addresses of runs begin.
const RUN: &str = "milepost://run/";
/// Runs on one page of the list.
const PAGE: usize = 100;

/// What a resource is made of.
pub(crate) struct Kind {
    pub(crate) call: Call,
    pub(crate) mime: &'static str,
}

/// What stands at an address.
pub(crate) fn at(uri: &str) -> Option<Kind> {
    if uri == BRIEF {
        return Some(Kind { call: Call::LatestBrief, mime: "text/markdown" });
    }
    let run = uri.strip_prefix(RUN).filter(|run| !run.is_empty())?;
    // A record between markers, whose content is JSON.
    Some(Kind { call: Call::Run(run.to_owned()), mime: "text/plain" })
}

/// One page of resources out of the document that lists the runs, and where the next one begins.
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
        .with_description("What whoever goes on needs to know, in Markdown")
        .with_mime_type("text/markdown")
}

fn run(run: &Value) -> Option<Resource> {
    let id = run["run_id"].as_str()?;
    let status = run["status"].as_str().unwrap_or("damaged");
    // No title: recorded text is given only between the markers of a record.
    let resource = Resource::new(format!("{RUN}{id}"), id);
    let about = format!("{status}, {} checkpoints", run["checkpoints"].as_u64().unwrap_or_default());
    Some(resource.with_description(about).with_mime_type("text/plain"))
}

/// How the address of a run is made.
pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new(format!("{RUN}{{run_id}}"), "run")
        .with_description("One run in full: its tasks, decisions, log, step and outcomes")
        .with_mime_type("text/plain")
}
