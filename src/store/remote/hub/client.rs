//! Requests to the Hub, and what its refusals mean.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use object_store::client::{HttpClient, HttpRequest, HttpRequestBody, HttpResponse};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, LINK, LOCATION, RANGE};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::env::Env;
use super::name::{Repo, RepoKind, in_name};
use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::store::remote::patient::{patient, root};
use crate::store::remote::said::LATER;
use crate::store::remote::url::without_queries;

/// The most redirects to a file's bytes.
const REDIRECTS: usize = 8;

/// How many characters the name of a content has in git.
const GIT_NAME: usize = 40;

/// The most names that an error lists.
const NAMED: usize = 10;

#[derive(Debug)]
pub(super) struct Client {
    env: Env,
    config: Arc<StoreConfig>,
    /// Made with the first request, since it reads the system's certificates: what is in the cache needs none.
    http: OnceLock<HttpClient>,
}

/// A refusal, in words for people.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refused(pub(super) String);

/// Where the bytes of a file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place(String);

impl Place {
    pub(super) fn new(url: &str) -> Self {
        Self(url.to_owned())
    }
}

/// An answer to a request for a file's bytes.
pub(super) struct Answer {
    pub(super) response: HttpResponse,
    /// Where it came from.
    pub(super) place: Place,
    /// The name of the content, if the Hub said it on the way there.
    pub(super) etag: Option<String>,
}

/// The branches and tags of a repository.
#[derive(Deserialize)]
struct Refs {
    branches: Vec<Ref>,
    tags: Vec<Ref>,
}

#[derive(Deserialize)]
struct Ref {
    name: String,
}

impl Client {
    pub(super) fn new(env: &Env, config: &Arc<StoreConfig>) -> Self {
        Self { env: env.clone(), config: config.clone(), http: OnceLock::new() }
    }

    fn http(&self) -> reqwest::Result<&HttpClient> {
        if let Some(http) = self.http.get() {
            return Ok(http);
        }
        // The place that a redirect names is kept, so no redirect is followed.
        let http = patient(&self.config, |client| client.redirect(reqwest::redirect::Policy::none()))?;
        Ok(self.http.get_or_init(|| http))
    }

    /// What the API says.
    pub(super) async fn json<T: DeserializeOwned>(&self, url: &str, repo: &Repo) -> Result<T> {
        self.page(url, repo).await.map(|(said, _)| said)
    }

    /// What the API says, and where it says more.
    pub(super) async fn page<T: DeserializeOwned>(
        &self,
        url: &str,
        repo: &Repo,
    ) -> Result<(T, Option<String>)> {
        let failed = |said: String| {
            Error::io(Path::new(&repo.to_string()), "read from the Hub", io::Error::other(said))
        };
        let (response, url) = self.followed(url).await.map_err(&failed)?;
        if !response.status().is_success() {
            return Err(failed(self.refusal(response, repo).await));
        }
        let next = response.headers().get(LINK).and_then(next_page).and_then(|next| joined(&url, &next));
        let body = response.into_body().bytes().await.map_err(|e| failed(without_queries(&e.to_string())))?;
        let said = serde_json::from_slice(&body);
        let said =
            said.map_err(|e| failed(format!("the answer is not the Hub's ({e}); look at HF_ENDPOINT")))?;
        Ok((said, next))
    }

    /// Requests a range of a file from its `place`, or else asks the Hub for the place first.
    pub(super) async fn range(
        &self,
        url: &str,
        place: Option<Place>,
        range: &Range<u64>,
        repo: &Repo,
    ) -> Result<Answer, Refused> {
        let asks_hub = place.is_none();
        let mut place = place.unwrap_or_else(|| Place::new(url));
        let mut etag = None;
        for _ in 0..REDIRECTS {
            let response = self.get(&place.0, Some(range)).await.map_err(Refused)?;
            let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            let named = |name: &str| Some(text(name)?.trim_start_matches("W/").replace('"', ""));
            let is_hub = self.is_hub(&place.0);
            etag = etag.or_else(|| named("x-linked-etag"));
            if !response.status().is_redirection() {
                if is_hub && response.status().is_success() {
                    // What the Hub itself sends is in git, whose names are so long.
                    etag = etag.or_else(|| named("etag").filter(|etag| etag.len() == GIT_NAME));
                }
                return match asks_hub && is_hub && !response.status().is_success() {
                    true => Err(Refused(self.refusal(response, repo).await)),
                    false => Ok(Answer { etag, response, place }),
                };
            }
            let Some(next) = text(LOCATION.as_str()).and_then(|next| joined(&place.0, next)) else {
                return Err(Refused("a redirect leads nowhere".to_owned()));
            };
            place = Place(next);
        }
        Err(Refused(format!("more than {REDIRECTS} redirects follow one another")))
    }

    fn is_hub(&self, url: &str) -> bool {
        url.strip_prefix(&self.env.endpoint).is_some_and(|rest| rest.starts_with('/'))
    }

    /// The answer to a request, and where it came from: a repository may have another name by now.
    async fn followed(&self, url: &str) -> Result<(HttpResponse, String), String> {
        let mut url = url.to_owned();
        for _ in 0..REDIRECTS {
            let response = self.get(&url, None).await?;
            let next = response.headers().get(LOCATION).and_then(|next| joined(&url, next.to_str().ok()?));
            match next.filter(|_| response.status().is_redirection()) {
                Some(next) => url = next,
                None => return Ok((response, url)),
            }
        }
        Err(format!("more than {REDIRECTS} redirects follow one another"))
    }

    /// Makes a request. The token goes to the Hub alone.
    async fn get(&self, url: &str, range: Option<&Range<u64>>) -> Result<HttpResponse, String> {
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = url.parse().map_err(|e| format!("{}: {e}", without_queries(url)))?;
        let headers: &mut HeaderMap = request.headers_mut();
        if let Some(Range { start, end }) = range {
            let bytes = HeaderValue::from_str(&format!("bytes={start}-{}", end - 1));
            headers.insert(RANGE, bytes.map_err(|e| e.to_string())?);
        }
        if let Some(token) = self.env.token.as_ref().filter(|_| self.is_hub(url)) {
            let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.secret))
                .map_err(|_| format!("the token of {} has characters that no token has", token.from))?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        let failed =
            |e: object_store::client::HttpError| without_queries(&format!("{}: {}", short(url), root(&e)));
        let http = self.http().map_err(|e| format!("no client can be made: {e}"))?;
        http.execute(request).await.map_err(failed)
    }

    /// What a refusal means, and what to do.
    async fn refusal(&self, response: HttpResponse, repo: &Repo) -> String {
        let status = response.status();
        let text = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let (code, said) = (text("x-error-code").unwrap_or_default(), text("x-error-message"));
        let (word, id) = (repo.kind.word(), &repo.id);
        let token = self.env.token.as_ref();
        match (&*code, status.as_u16()) {
            ("GatedRepo", _) => {
                let page = repo.page(&self.env.endpoint);
                let by = token.map_or_else(
                    || "set HF_TOKEN to a token".to_owned(),
                    |it| format!("give {} a token", it.from),
                );
                format!(
                    "the {word} {id} is gated: ask for access at {page}, and {by} of the account that has it"
                )
            }
            ("RevisionNotFound", _) => {
                let names = self.revisions(repo).await;
                format!("the {word} {id} has no branch, tag or commit {:?}{names}", repo.revision)
            }
            ("RepoNotFound", _) | ("", 401 | 404) => match (self.namesakes(repo).await, token) {
                (Some(meant), _) => format!("there is no {word} {id}; {meant}"),
                (None, None) => format!(
                    "there is no {word} {id}, or it is private: check the name or, for a private one, set HF_TOKEN or log \
                     in with `hf auth login`"
                ),
                (None, Some(token)) => format!(
                    "there is no {word} {id}, or the token of {} may not read it: check the name and the token",
                    token.from
                ),
            },
            _ => {
                let body = response.into_body().bytes().await.unwrap_or_default();
                let said =
                    said.or_else(|| String::from_utf8(body.into()).ok()).filter(|said| !said.is_empty());
                let said = said.map(|said| format!(": {said}")).unwrap_or_default();
                let advice = match (status.as_u16(), token) {
                    (401 | 403, Some(token)) => format!("; check the token of {}", token.from),
                    (401 | 403, None) => "; set HF_TOKEN to a token".to_owned(),
                    (404, _) => "; check the name".to_owned(),
                    (429 | 500.., _) => LATER.to_owned(),
                    _ => String::new(),
                };
                format!("the Hub answers {status}{said}{advice}")
            }
        }
    }

    /// The branches and tags that there are, for an error.
    async fn revisions(&self, repo: &Repo) -> String {
        let url = format!("{}/refs", repo.api(&self.env.endpoint));
        let Some(Refs { branches, tags }) = self.found(&url).await else { return String::new() };
        let names: Vec<String> =
            branches.into_iter().chain(tags).map(|of| in_name(&of.name)).take(NAMED).collect();
        format!("; it has {}", names.join(", "))
    }

    /// The other kinds of repositories of this name, for an error.
    async fn namesakes(&self, repo: &Repo) -> Option<String> {
        for kind in RepoKind::ALL.into_iter().filter(|kind| *kind != repo.kind) {
            let other = Repo { kind, ..repo.clone() };
            let found: Option<BTreeMap<String, serde::de::IgnoredAny>> =
                self.found(&other.api(&self.env.endpoint)).await;
            if found.is_some() {
                return Some(format!(
                    "there is a {} of this name: hf://{}{}",
                    kind.word(),
                    kind.prefix(),
                    repo.id
                ));
            }
        }
        None
    }

    /// What the API says, if it does.
    async fn found<T: DeserializeOwned>(&self, url: &str) -> Option<T> {
        let response = self.get(url, None).await.ok().filter(|response| response.status().is_success())?;
        serde_json::from_slice(&response.into_body().bytes().await.ok()?).ok()
    }
}

/// The next page in a header such as `<https://…>; rel="next"`.
fn next_page(link: &HeaderValue) -> Option<String> {
    let links = link.to_str().ok()?.split(',');
    let next = links.filter_map(|link| link.split_once('>')).find(|(_, rel)| rel.contains("rel=\"next\""))?;
    Some(next.0.trim().strip_prefix('<')?.to_owned())
}

/// Where a redirect from `url` leads.
fn joined(url: &str, next: &str) -> Option<String> {
    let joined = reqwest::Url::parse(url).ok()?.join(next).ok()?;
    matches!(joined.scheme(), "http" | "https").then(|| joined.to_string())
}

/// A URL without its query, which may be signed.
fn short(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}
