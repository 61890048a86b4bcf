//! The shapes of marks, around the origin. Every kind has its own shape, so that people who cannot tell colours apart
//! can tell the kinds apart.

use super::chart::MarkKind;

/// The outline of a mark, and a sign inside it.
pub(super) fn shape(kind: MarkKind) -> (&'static str, Option<&'static str>) {
    const CIRCLE_4: &str = "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z";
    const CIRCLE_6: &str = "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z";
    const BUBBLE: &str = "M-6-5.5h12v9h-7l-3 3v-3h-2z";
    match kind {
        MarkKind::Timer => (CIRCLE_4, None),
        MarkKind::Boundary => ("M0-6L6 0L0 6L-6 0z", None),
        MarkKind::Manual => ("M-4.5-4.5h9v9h-9z", None),
        MarkKind::Paused => ("M-5-5.5h3.5v11h-3.5zM1.5-5.5h3.5v11h-3.5z", None),
        MarkKind::Completed => (CIRCLE_6, Some("M-2.8 0.2L-0.8 2.2L2.8-2")),
        MarkKind::Damaged => ("M-4.5-4.5h9v9h-9z", Some("M-4.5-4.5l9 9")),
        MarkKind::Failed => ("M0-6.5L6.5 5h-13z", Some("M0-2.5v3.5M0 3v0.6")),
        MarkKind::Prompt => (BUBBLE, Some("M-3.5-2.5h7M-3.5 0.5h4")),
        MarkKind::Answer => (BUBBLE, None),
        MarkKind::Plan => ("M-4.5-6h9v12h-9z", Some("M-2.5-2.5h5M-2.5 0h5M-2.5 2.5h3")),
        MarkKind::Reply => (CIRCLE_4, None),
        MarkKind::OpenFailure => (CIRCLE_6, Some("M-2.4-2.4l4.8 4.8M2.4-2.4l-4.8 4.8")),
        MarkKind::FixedFailure => ("M-4-4l8 8M4-4l-8 8", None),
    }
}

/// A flag above a mark that is pinned or tagged.
pub(super) const FLAG: &str = "M-0.5-8v-8h7l-2 2.5l2 2.5h-6v3z";
