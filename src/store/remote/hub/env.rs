//! What the environment says about the Hub, by the names that its own libraries read.

use std::fmt;
use std::path::PathBuf;

/// The server, the account and the cache.
#[derive(Clone, Debug)]
pub(super) struct Env {
    /// The server's address, without a slash at its end.
    pub(super) endpoint: String,
    pub(super) token: Option<Token>,
    /// The directory of all repositories.
    pub(super) cache: PathBuf,
    /// Whether nothing may be asked of the server.
    pub(super) is_offline: bool,
}

/// A secret: no log and no error shows it.
#[derive(Clone)]
pub(super) struct Token {
    pub(super) secret: String,
    /// Where it was found.
    pub(super) from: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("from", &self.from).finish_non_exhaustive()
    }
}

const ENDPOINT: &str = "https://huggingface.co";

impl Env {
    pub(super) fn new() -> Self {
        let under = |directory: Option<PathBuf>, name: &str| directory.unwrap_or_default().join(name);
        let caches = || path("XDG_CACHE_HOME").or_else(|| Some(under(std::env::home_dir(), ".cache")));
        let home = path("HF_HOME").unwrap_or_else(|| under(caches(), "huggingface"));
        let cache = path("HF_HUB_CACHE").or_else(|| path("HUGGINGFACE_HUB_CACHE"));
        Self {
            endpoint: text("HF_ENDPOINT")
                .map_or_else(|| ENDPOINT.to_owned(), |url| url.trim_end_matches('/').to_owned()),
            cache: cache.unwrap_or_else(|| home.join("hub")),
            token: token(path("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"))),
            is_offline: is_set("HF_HUB_OFFLINE"),
        }
    }
}

/// The token of a variable or, without one, of the file that `hf auth login` writes.
fn token(file: PathBuf) -> Option<Token> {
    let named = |name: &str| Some(Token { secret: text(name)?, from: name.to_owned() });
    let written = || {
        let secret = std::fs::read_to_string(&file).ok()?.trim().to_owned();
        (!secret.is_empty()).then(|| Token { secret, from: file.display().to_string() })
    };
    let found = || named("HF_TOKEN").or_else(|| named("HUGGING_FACE_HUB_TOKEN")).or_else(written);
    if is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN") { None } else { found() }
}

/// A variable's text without white space around it, if it has any.
fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A variable's path, with its tilde and the variables in it replaced.
fn path(name: &str) -> Option<PathBuf> {
    let text = text(name)?;
    let known = |name: &str| std::env::var(name).ok();
    let (tilde, home) = (shellexpand::env_with_context_no_errors(&text, known), std::env::home_dir());
    let home = || home.map(|home| home.to_string_lossy().into_owned());
    Some(shellexpand::tilde_with_context(&tilde, home).into_owned().into())
}

fn is_set(name: &str) -> bool {
    text(name).is_some_and(|text| ["1", "on", "yes", "true"].contains(&&*text.to_ascii_lowercase()))
}
