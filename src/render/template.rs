//! Chat templates.

use std::ops::Range;

use super::RenderError;
use super::json::Json;

#[derive(Debug)]
pub(crate) struct Template;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    pub(crate) messages: &'a [Json],
    pub(crate) tools: Option<&'a [Json]>,
    pub(crate) documents: Option<&'a [Json]>,
    pub(crate) kwargs: &'a [(String, Json)],
    pub(crate) add_generation_prompt: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TemplateText {
    pub(crate) text: String,
    pub(crate) generated: Vec<Range<usize>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Date;

impl Date {
    pub(crate) fn parse(_text: &str) -> Option<Self> {
        Some(Self)
    }
}

impl Template {
    pub(crate) fn compile(
        _source: &str,
        _tokens: &[(String, String)],
        _date: Option<Date>,
    ) -> Result<Self, RenderError> {
        Ok(Self)
    }

    pub(crate) fn asks_for_date(&self) -> bool {
        false
    }

    pub(crate) fn marks_generation(&self) -> bool {
        false
    }

    pub(crate) fn render(&self, _input: &Input<'_>) -> Result<TemplateText, RenderError> {
        Ok(TemplateText::default())
    }
}
