//! Templates beside a tokenizer.

use std::path::Path;

use crate::error::Result;

#[derive(Clone, Debug, Default)]
pub(crate) struct TemplateFiles {
    pub(crate) templates: Vec<(String, String)>,
    pub(crate) tokens: Vec<(String, String)>,
}

impl TemplateFiles {
    pub(crate) fn beside(_tokenizer: &Path) -> Result<Self> {
        Ok(Self::default())
    }
}
