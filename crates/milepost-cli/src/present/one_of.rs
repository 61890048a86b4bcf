//! The result of a command that returns one of two documents, depending on its arguments.

use serde::Serialize;

use super::{Document, Note, Output, Stream};
use crate::error::{CommandError, Result};

/// One of two documents. Its JSON form is that of the document.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum OneOf<A, B> {
    First(A),
    Second(B),
}

macro_rules! delegate {
    ($self:ident, $document:ident => $call:expr) => {
        match $self {
            Self::First($document) => $call,
            Self::Second($document) => $call,
        }
    };
}

impl<A: Document, B: Document> Document for OneOf<A, B> {
    fn render(&self, output: &Output) -> Result<()> {
        delegate!(self, document => document.render(output))
    }

    fn notes(&self) -> Vec<Note> {
        delegate!(self, document => document.notes())
    }

    fn change(&self) -> Option<String> {
        delegate!(self, document => document.change())
    }

    fn error(&self) -> Option<CommandError> {
        delegate!(self, document => document.error())
    }

    fn stream(&self) -> Stream {
        delegate!(self, document => document.stream())
    }
}
