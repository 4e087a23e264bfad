//! Names the files that have changed, when a cursor is refused because of them.

use crate::config::{Config, names};
use crate::error::Error;
use crate::files::Listing;
use crate::source::Source;

/// Returns the same error. If `config` cannot continue from a cursor because its files have changed, the error names
/// the first changed file. `was` is the earlier [listing](crate::Loader::listing); the files are listed again.
pub async fn explain(error: Error, was: &Listing, config: &Config) -> Error {
    if !matches!(&error, Error::Fingerprint { field, .. } if field.ends_with(".files")) {
        return error;
    }
    match Source::from_config(config).await {
        Ok(source) => was.explain(error, &Listing::new(&names(&config.sources), source.files())),
        Err(_) => error,
    }
}
