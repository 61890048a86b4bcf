//! Renders Markdown from briefs as HTML. Raw HTML is shown as text, images are not loaded, and only links to web
//! addresses can be followed.

use maud::PreEscaped;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};

/// Renders a text that is already redacted and made visible.
pub(crate) fn render(text: &str) -> PreEscaped<String> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut html = String::with_capacity(text.len() * 3 / 2);
    // The links and images that are open, with the address of each that is shown as text.
    let mut open: Vec<Option<String>> = Vec::new();
    let events = Parser::new_ext(text, options).flat_map(|event| match event {
        Event::Html(raw) | Event::InlineHtml(raw) => vec![Event::Text(raw)],
        Event::Start(Tag::Link { dest_url, .. }) if is_web_address(&dest_url) => {
            open.push(None);
            vec![Event::InlineHtml(link_start(&dest_url).into())]
        }
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            open.push(Some(dest_url.into_string()));
            Vec::new()
        }
        Event::End(TagEnd::Link | TagEnd::Image) => match open.pop().flatten() {
            None => vec![Event::InlineHtml(CowStr::Borrowed("</a>"))],
            Some(address) => vec![Event::Text(format!(" ({address})").into())],
        },
        // Anchors and classes that a heading names could collide with those of the page.
        Event::Start(Tag::Heading { level, .. }) => {
            vec![Event::Start(Tag::Heading { level, id: None, classes: Vec::new(), attrs: Vec::new() })]
        }
        Event::TaskListMarker(is_done) => vec![Event::InlineHtml(CowStr::Borrowed(match is_done {
            true => "<input type=\"checkbox\" disabled checked aria-label=\"done\"> ",
            false => "<input type=\"checkbox\" disabled aria-label=\"open\"> ",
        }))],
        Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => Vec::new(),
        other => vec![other],
    });
    pulldown_cmark::html::push_html(&mut html, events);
    PreEscaped(html)
}

fn is_web_address(address: &str) -> bool {
    let start = address.get(..8).unwrap_or(address).to_ascii_lowercase();
    start.starts_with("https://") || start.starts_with("http://")
}

fn link_start(address: &str) -> String {
    maud::html! { a href=(address) rel="noopener noreferrer" target="_blank" {} }
        .into_string()
        .strip_suffix("</a>")
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_rendered() {
        let html = render("# A\n\n- [x] done\n\n**b** `c` <https://example.org>").0;
        assert!(html.contains("<h1>A</h1>") && html.contains("<strong>b</strong> <code>c</code>"), "{html}");
        assert!(html.contains("<a href=\"https://example.org\" rel=\"noopener noreferrer\""), "{html}");
    }

    #[test]
    fn nothing_runs_and_nothing_is_loaded() {
        for hostile in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "<div onclick=x>\n\n<style>*{}</style>",
            "[x](javascript:alert(1)) [y](JaVaScRiPt:alert(1)) [z](data:text/html,x) <javascript:alert(1)>",
            "![i](https://example.org/p.png \"t\")",
            "![i](javascript:x)",
            "# h {#id .class onclick=x}",
            "[a\" onmouseover=x](https://e.org/\"onmouseover=x)",
            "<!-- --><svg/onload=x>",
            "```html\n</code><script>x</script>\n```",
            "[r]\n\n[r]: javascript:alert(1)",
        ] {
            let html = render(hostile).0;
            for bad in
                ["<script", "<img", "<svg", "<style", "<div", "href=\"javascript", "href=\"data", "id="]
            {
                assert!(!html.to_lowercase().contains(bad), "{hostile} became {html}");
            }
            let tags = html.split('<').skip(1).filter_map(|tag| tag.split('>').next());
            assert_eq!(
                tags.filter(|tag| tag.contains(" on")).count(),
                0,
                "{hostile} became a handler: {html}"
            );
        }
    }
}
