//! An HTTP client that retries: the only place where a failed request is repeated.
//!
//! Every request to a store goes through it, including those for listings and credentials. Answers without a
//! range are read to their end here, so that one that breaks off is requested again as a whole. The body of a
//! range belongs to its reader, which goes on where it broke off.
//!
//! `object_store` has its own retries, and they are off. They do not wait as long as a server asks
//! (`Retry-After`), cannot go on within a body if the file has no etag, count their deadline from the
//! request's start instead of from the last byte that arrived, and do not say which URL is retried.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use chrono::DateTime;
use futures::future::BoxFuture;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use reqwest::header::{HeaderMap, HeaderValue};
use rustls::crypto::CryptoProvider;

use super::attempts::Attempts;
use super::hosts;
use super::odd_keys::replaced;
use super::said::said;
use crate::config::StoreConfig;

/// The hosts that tell cloud machines who they are. Elsewhere they do not exist, and waiting for an answer is
/// in vain.
pub(super) const METADATA_HOSTS: [&str; 3] = ["169.254.169.254", "metadata.google.internal", "metadata"];

/// A client of its own, made as `built` says.
pub(super) fn patient(
    config: &Arc<StoreConfig>,
    built: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
) -> reqwest::Result<HttpClient> {
    install_tls();
    let client = reqwest::Client::builder().user_agent(USER_AGENT).connect_timeout(CONNECT);
    let client = client.read_timeout(config.silence());
    let inner = HttpClient::new(built(client).build()?);
    Ok(HttpClient::new(Patient { inner, config: config.clone() }))
}

#[derive(Clone, Debug)]
pub(super) struct PatientConnector(pub(super) Arc<StoreConfig>);

impl HttpConnector for PatientConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        install_tls();
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Patient { inner, config: self.0.clone() }))
    }
}

/// What servers see of this program.
const USER_AGENT: &str = concat!("millstream/", env!("CARGO_PKG_VERSION"));

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// Makes ring the process's TLS library, unless the application has chosen one.
fn install_tls() {
    if CryptoProvider::get_default().is_none() {
        // It fails only if another thread was first.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// Shares an existing client, because each new client reads the system's certificates.
#[derive(Clone, Debug)]
pub(super) struct SharedConnector(pub(super) HttpClient);

impl HttpConnector for SharedConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.0.clone())
    }
}

#[derive(Debug)]
struct Patient {
    inner: HttpClient,
    config: Arc<StoreConfig>,
}

/// Why a request may be retried, and how long its server asks to wait.
struct RequestTrouble {
    reason: String,
    at_least: Duration,
}

impl HttpService for Patient {
    fn call<'s, 'f>(&'s self, request: HttpRequest) -> BoxFuture<'f, Result<HttpResponse, HttpError>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(self.persist(request))
    }
}

impl Patient {
    async fn persist(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let uri = request.uri();
        // The query is left out, because it may hold a signature.
        let url = format!(
            "{}://{}{}",
            uri.scheme_str().unwrap_or_default(),
            uri.authority().map_or("", |authority| authority.as_str()),
            uri.path()
        );
        let host = uri.authority().map(ToString::to_string).unwrap_or_default();
        let is_metadata = uri.host().is_some_and(|host| METADATA_HOSTS.contains(&host));
        let (mut attempts, began) = (Attempts::new(&self.config), Instant::now());
        loop {
            if let Err(reason) = hosts::wait(&host).await {
                return Err(HttpError::new(HttpErrorKind::Connect, Dead(reason)));
            }
            let outcome = self.attempt(request.clone(), attempts.patience()).await;
            let trouble = match &outcome {
                Ok(response) => of_response(response),
                Err(error) => of_error(error).filter(|_| !is_metadata),
            };
            let Some(RequestTrouble { reason, at_least }) = trouble else {
                hosts::answered(&host);
                return outcome;
            };
            hosts::pause(&host, at_least);
            if !attempts.again(&url, &reason, at_least).await {
                hosts::failed(&host, began, &reason);
                return outcome;
            }
        }
    }

    /// Makes a request once. The server may be silent for so long.
    async fn attempt(&self, mut request: HttpRequest, patience: Duration) -> Result<HttpResponse, HttpError> {
        let is_range = request.headers().contains_key("range");
        let has_body = request.method() != "HEAD";
        request.headers_mut().insert("accept-encoding", HeaderValue::from_static("identity"));
        let answer = tokio::time::timeout(patience, self.inner.execute(request)).await;
        let response = answer.map_err(|_| HttpError::new(HttpErrorKind::Timeout, Silent))??;
        let coding = transfer_coding(response.headers()).filter(|_| has_body);
        let (is_coded, is_success) = (coding.is_some(), response.status().is_success());
        if let Some(coding) = coding.filter(|_| is_success) {
            return Err(HttpError::new(HttpErrorKind::Decode, UnwantedCoding(coding)));
        }
        if is_range && is_success {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = body.bytes().await?;
        let body = match (is_success, is_coded) {
            (true, _) => replaced(&body).map_or_else(|| body.into(), Into::into),
            (false, false) => said(&body).into(),
            // The status says what is wrong; a page that cannot be read says nothing.
            (false, true) => String::new().into(),
        };
        Ok(HttpResponse::from_parts(parts, body))
    }
}

/// No answer. It reads as the client's own limit does, which is reached at the same time.
#[derive(Debug, thiserror::Error)]
#[error("operation timed out")]
struct Silent;

/// A request that was not made.
#[derive(Debug, thiserror::Error)]
#[error("{0}; the server is not asked again so soon")]
struct Dead(String);

/// An answer in a coding that was not asked for.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server sends the file as {0}, and was asked to send it as it is (Accept-Encoding: identity): turn off \
     compression there, or copy the file to this machine"
)]
struct UnwantedCoding(String);

/// The coding that an answer was put in on its way.
///
/// A file may also be stored in a coding (`.gz` on many servers, objects with such metadata). Then a range is one of
/// the stored bytes, and has its length, and their first bytes tell how to decode them.
fn transfer_coding(headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let coding =
        text("content-encoding").filter(|it| !it.is_empty() && !it.eq_ignore_ascii_case("identity"))?;
    let range = text("content-range").and_then(|range| {
        let (from, to) = range.strip_prefix("bytes ")?.split_once('/')?.0.split_once('-')?;
        to.parse::<u64>().ok()?.checked_sub(from.parse().ok()?)?.checked_add(1)
    });
    let sent = text("content-length").and_then(|len| len.parse().ok());
    // Bytes in an unknown coding would be read as text.
    let is_known = ["gzip", "x-gzip", "zstd"].iter().any(|known| coding.eq_ignore_ascii_case(known));
    (!is_known || range.is_none() || range != sent).then(|| coding.into_owned())
}

/// The problem of an answer, if another attempt may help.
fn of_response(response: &HttpResponse) -> Option<RequestTrouble> {
    let status = response.status();
    if !matches!(status.as_u16(), 408 | 429 | 500 | 502..=504 | 506..=599) {
        return None;
    }
    let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let limit = || text("ratelimit").filter(|_| status == 429).and_then(reset);
    let seconds = text("retry-after").and_then(seconds).or_else(limit);
    Some(RequestTrouble {
        reason: status.to_string(),
        at_least: Duration::from_secs(seconds.unwrap_or_default()),
    })
}

/// How long to wait: a number of seconds, or a date.
fn seconds(wait: &str) -> Option<u64> {
    let until = || {
        let until = DateTime::parse_from_rfc2822(wait.trim()).ok()?.timestamp();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
        Some(u64::try_from(until).ok()?.saturating_sub(now))
    };
    wait.trim().parse().ok().or_else(until)
}

/// When a limit such as `"api";r=0;t=55` is lifted, in seconds.
fn reset(limit: &str) -> Option<u64> {
    limit.split(';').find_map(|part| part.trim().strip_prefix("t="))?.trim().parse().ok()
}

/// The problem of a connection, if another attempt may help.
fn of_error(error: &HttpError) -> Option<RequestTrouble> {
    match error.kind() {
        HttpErrorKind::Connect
        | HttpErrorKind::Request
        | HttpErrorKind::Timeout
        | HttpErrorKind::Interrupted => {
            Some(RequestTrouble { reason: root(error), at_least: Duration::ZERO })
        }
        _ => None,
    }
}

/// The root cause of an error. The rest of its chain says where it passed.
pub(super) fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use chrono::{TimeDelta, Utc};

    use super::*;

    #[test]
    fn a_wait_is_a_number_of_seconds_or_a_date() {
        assert_eq!((seconds(" 7 "), seconds("soon"), seconds("-1")), (Some(7), None, None));
        assert_eq!(seconds("Wed, 21 Oct 2015 07:28:00 GMT"), Some(0));
        let later = DateTime::<Utc>::from(SystemTime::now()) + TimeDelta::seconds(1000);
        let wait = seconds(&later.format("%a, %d %b %Y %H:%M:%S GMT").to_string()).expect("a wait");
        assert!((900..=1000).contains(&wait), "{wait}");
    }
}
