//! Says which files have changed, where a cursor is refused because of them.

use crate::config::{Config, names};
use crate::error::Error;
use crate::files::Listing;
use crate::source::Source;

/// Returns the same error; if `config` does not go on with a cursor because its files have changed, it names the first
/// of them, given the listing of those that [were](crate::Loader::listing). It looks at the files again.
pub async fn explain(error: Error, was: &Listing, config: &Config) -> Error {
    if !matches!(&error, Error::Fingerprint { field, .. } if field.ends_with(".files")) {
        return error;
    }
    match Source::from_config(config).await {
        Ok(source) => was.explain(error, &Listing::new(&names(&config.sources), source.files())),
        Err(_) => error,
    }
}
