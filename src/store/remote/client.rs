//! Makes the client of a URL's store, with the credentials that the environment gives.

use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{HttpClient, HttpConnector};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, Result, RetryConfig};

use super::patient::{PatientConnector, SharedConnector};
use super::url::Url;
use crate::config::StoreConfig;

/// Turns off the library's own retries. [`patient`](super::patient) makes them all, so that they are logged
/// and share one deadline.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, backoff: BackoffConfig::default(), ..RetryConfig::default() }
}

/// The limits of a request: on its silence, not on its length.
fn bounds(config: &StoreConfig) -> [(ClientConfigKey, String); 2] {
    [
        (ClientConfigKey::ReadTimeout, format!("{} ms", config.silence().as_millis().max(1))),
        (ClientConfigKey::Timeout, "7 days".to_owned()),
    ]
}

/// The HTTP client of all plain servers.
pub(super) fn http_client(config: &Arc<StoreConfig>) -> Result<HttpClient> {
    let options = ClientOptions::new().with_allow_http(true);
    let options =
        bounds(config).into_iter().fold(options, |options, (key, value)| options.with_config(key, value));
    PatientConnector(config.clone()).connect(&options)
}

/// The client of the store that `url` is in. `http` makes the requests to plain servers.
pub(super) fn connect(
    url: &Url<'_>,
    config: &Arc<StoreConfig>,
    http: &HttpClient,
) -> Result<Arc<dyn ObjectStore>> {
    macro_rules! cloud {
        ($builder:ty, $key:path) => {{
            let builder = <$builder>::from_env().with_url(url.root());
            let with = |builder: $builder, (key, value)| builder.with_config($key(key), value);
            let builder = bounds(config).into_iter().fold(builder, with);
            let builder = builder.with_http_connector(PatientConnector(config.clone()));
            Arc::new(builder.with_retry(no_retries()).build()?)
        }};
    }
    Ok(match url.scheme {
        "s3" | "s3a" => cloud!(AmazonS3Builder, AmazonS3ConfigKey::Client),
        "gs" => cloud!(GoogleCloudStorageBuilder, GoogleConfigKey::Client),
        "http" | "https" => {
            // The client keeps the query of its base URL.
            let builder = HttpBuilder::new().with_url(format!("{}/{}", url.root(), url.query));
            let builder = builder.with_http_connector(SharedConnector(http.clone()));
            Arc::new(builder.with_retry(no_retries()).build()?)
        }
        _ => cloud!(MicrosoftAzureBuilder, AzureConfigKey::Client),
    })
}
