//! The frame of every page: head, navigation, search box, help on keys.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::{PageError, status_of};
use crate::assets;
use crate::live::Version;
use crate::projects::Project;
use crate::text::{encode, make_visible};

/// Keys that the script handles, for the help dialog.
const KEYS: [(&str, &str); 9] = [
    ("/", "search"),
    ("j, k", "next, previous row"),
    ("Enter", "open the selected row"),
    ("[, ]", "previous, next checkpoint"),
    ("+, -, 0", "zoom the timeline in, out, reset"),
    ("←, →", "move the timeline"),
    ("c", "copy the first command"),
    ("h", "all projects"),
    ("?", "this help"),
];

/// A page without its frame.
pub(crate) struct Page {
    pub(crate) title: String,
    /// The pages above this one: text and address.
    pub(crate) path: Vec<(String, String)>,
    /// What to watch for changes, as the query of `/live`, and what the page shows.
    pub(crate) live: Option<(String, Version)>,
    /// The key of the project that the search box searches first.
    pub(crate) project: Option<String>,
    /// Why the store of the project is not trusted.
    untrusted: Option<String>,
    /// Whether the page has a search box at its top.
    pub(crate) has_search_box: bool,
    pub(crate) content: Markup,
}

impl Page {
    pub(crate) fn new(title: impl Into<String>, content: Markup) -> Self {
        Self {
            title: title.into(),
            path: Vec::new(),
            live: None,
            project: None,
            untrusted: None,
            has_search_box: true,
            content,
        }
    }

    /// Adds a page above this one to the navigation.
    pub(crate) fn below(mut self, text: impl Into<String>, address: String) -> Self {
        self.path.push((text.into(), address));
        self
    }

    /// Updates the page when something changes.
    pub(crate) fn live(mut self, query: String, version: Version) -> Self {
        self.live = Some((query, version));
        self
    }

    /// Limits the search box to a project at first, and says if its store is not trusted.
    pub(crate) fn in_project(mut self, project: &Project) -> Self {
        self.project = Some(project.key.clone());
        self.untrusted = project.untrusted.clone();
        self
    }

    /// Removes the search box, from a page that has its own.
    pub(crate) fn without_search_box(mut self) -> Self {
        self.has_search_box = false;
        self
    }

    fn render(&self) -> String {
        let title = make_visible(&self.title, |_| false);
        let [_, script, _] = assets::addresses();
        let script = html! { script src=(script) defer {} };
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                (head(&format!("{title} · Milepost"), script))
                body data-live=[self.live.as_ref().map(|live| &live.0)] data-version=[self.live.as_ref().map(|live| live.1.to_string())] {
                    a.skip href="#content" { "Skip to content" }
                    header.top {
                        nav aria-label="Breadcrumb" {
                            ol.path {
                                li { a.brand href="/" { "Milepost" } }
                                @for (text, address) in &self.path {
                                    li { a href=(address) { bdi { (make_visible(text, |_| false)) } } }
                                }
                            }
                        }
                        @if self.has_search_box { form.search role="search" action="/search" method="get" {
                            label.hidden for="q" { "Search" }
                            input #q type="search" name="q" placeholder="Search  /" autocomplete="off"
                                spellcheck="false" maxlength="400";
                            @if let Some(project) = &self.project {
                                input type="hidden" name="project" value=(project);
                            }
                        } }
                        button.quiet.help type="button" data-help aria-label="Keyboard shortcuts" { "?" }
                    }
                    main #content tabindex="-1" {
                        @if let Some(why) = &self.untrusted {
                            p.warning {
                                "This store is not trusted: " (make_visible(why, |_| false)) ". "
                                code { "milepost trust" } " reviews and trusts it."
                            }
                        }
                        (self.content)
                    }
                    p #status.hidden role="status" aria-live="polite" {}
                    dialog #help aria-labelledby="help-title" {
                        h2 #help-title { "Keyboard shortcuts" }
                        dl.keys {
                            @for (key, text) in KEYS { div { dt { kbd { (key) } } dd { (text) } } }
                        }
                        form method="dialog" { button { "Close" } }
                    }
                }
            }
        };
        page.into_string()
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], self.render()).into_response()
    }
}

/// A page for an error.
pub(crate) fn error_page(error: &PageError) -> Response {
    let (title, text) = match error {
        PageError::NotFound(text) => ("Not found", text),
        PageError::Invalid(text) => ("Invalid request", text),
        PageError::Failed(text) => ("This could not be read", text),
    };
    let content = html! {
        h1 { (title) }
        p.error { (make_visible(text, |_| false)) }
        p { a href="/" { "All projects" } }
    };
    let mut response = Page::new(title, content).into_response();
    *response.status_mut() = status_of(error);
    response
}

/// A page with one message, without navigation. With an address, the browser opens that page at once.
pub(crate) fn message_page(title: &str, text: &str, next: Option<&str>) -> String {
    let refresh = html! {
        @if let Some(next) = next { meta http-equiv="refresh" content=(format!("0; url={next}")); }
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, refresh))
            body { main.message {
                h1 { (title) }
                p { (text) }
                @if let Some(next) = next { p { a href=(next) { "Continue" } } }
            } }
        }
    };
    page.into_string()
}

/// The head of a page, with elements that only this page has.
fn head(title: &str, more: Markup) -> Markup {
    let [style, _, icon] = assets::addresses();
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) }
            link rel="stylesheet" href=(style);
            link rel="icon" href=(icon) type="image/svg+xml";
            (more)
        }
    }
}

/// The address of a project.
pub(crate) fn project_address(project: &str) -> String {
    format!("/p/{}", encode(project))
}

/// The address of a run.
pub(crate) fn run_address(project: &str, run: &str) -> String {
    format!("{}/r/{}", project_address(project), encode(run))
}

/// The address of a checkpoint.
pub(crate) fn checkpoint_address(project: &str, run: &str, sequence: u64) -> String {
    format!("{}/c/{sequence}", run_address(project, run))
}
