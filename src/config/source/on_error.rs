//! `on_error`: what happens to a document that cannot be read.

use serde::{Deserialize, Deserializer, Serialize};

/// What happens to a document that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum OnError {
    /// The stream ends with an error that says where.
    #[default]
    Fail,
    /// It is skipped, logged and counted; more than this many in one epoch of a lane are an error.
    Skip(u64),
}

/// Written by hand for its message: a derived one would name variants.
impl<'de> Deserialize<'de> for OnError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            rename_all = "lowercase",
            deny_unknown_fields,
            expecting = "must be \"fail\", or how many to skip, such as { skip = 100 }"
        )]
        enum Written {
            Fail,
            #[serde(untagged)]
            Skip {
                skip: u64,
            },
        }

        Ok(match Written::deserialize(deserializer)? {
            Written::Fail => Self::Fail,
            Written::Skip { skip } => Self::Skip(skip),
        })
    }
}
