//! A server on loopback that speaks the HTTP API of the Hugging Face Hub, with a CDN beside it.
//!
//! What `huggingface_hub` and `datasets` ask for is there: a repository's description, its tree, its refs, and its
//! files. Files in LFS come from the CDN by locations that can expire. Hashes are not cryptographic, but as long as
//! the real ones.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

use crate::support::server::{self, decoded};

/// Longer files are in LFS, whatever their name.
const REGULAR_LEN: usize = 64 << 10;

const LFS_EXTENSIONS: [&str; 6] = [".parquet", ".arrow", ".bin", ".zst", ".gz", ".safetensors"];

/// When everything was changed last.
const DATE: &str = "2026-01-02T03:04:05.000Z";

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    head: server::Request,
    /// Whether it came to the CDN, not to the Hub.
    pub(crate) is_cdn: bool,
    body: String,
}

impl Deref for Request {
    type Target = server::Request;

    fn deref(&self) -> &server::Request {
        &self.head
    }
}

impl Request {
    /// The value of a parameter of the query.
    fn parameter(&self, name: &str) -> Option<String> {
        form(&self.query).find(|(key, _)| key == name).map(|(_, value)| value)
    }

    fn is_set(&self, name: &str) -> bool {
        self.parameter(name).is_some_and(|value| ["true", "True", "1"].contains(&value.as_str()))
    }

    fn token(&self) -> Option<&str> {
        self.headers.get("authorization")?.strip_prefix("Bearer ")
    }
}

/// What goes wrong with an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    Nothing,
    /// This status, with these headers.
    Status(u16, Vec<(String, String)>),
    /// The connection is closed without an answer.
    Closed,
    /// The connection is closed after so many bytes of the body.
    Cut(usize),
    /// The answer is another range of the same length: the beginning of the file.
    Beginning,
    /// The answer has this body.
    Body(String),
    /// The file has this etag, which stands here without its quotes.
    Etag(String),
}

type Faults = Box<dyn FnMut(&Request) -> Fault + Send>;

/// A file of a commit.
#[derive(Clone)]
struct Blob {
    bytes: Arc<Vec<u8>>,
    /// The git object: the file itself, or the pointer to what is in LFS.
    oid: String,
    lfs: Option<String>,
}

impl Blob {
    fn new(path: &str, bytes: &[u8]) -> Self {
        let is_lfs = bytes.len() > REGULAR_LEN || LFS_EXTENSIONS.iter().any(|end| path.ends_with(end));
        let lfs = is_lfs.then(|| digest(bytes, 64));
        // The pointer is a text with the hash.
        let oid = digest(lfs.as_ref().map_or(bytes, |lfs| lfs.as_bytes()), 40);
        Self { bytes: Arc::new(bytes.to_vec()), oid, lfs }
    }
}

type Files = BTreeMap<String, Blob>;

#[derive(Clone, Default)]
struct Repo {
    commits: BTreeMap<String, Files>,
    /// From refs such as "refs/heads/main" to commits.
    refs: BTreeMap<String, String>,
    /// Without this token the repository seems not to exist.
    private: Option<String>,
    /// Without this token files cannot be read.
    gate: Option<String>,
}

/// The answer to a request, or why there is none.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    fn json(body: &impl ToString) -> Self {
        Self::new(200, body.to_string()).with("content-type", "application/json; charset=utf-8")
    }

    fn refusal(status: u16, code: Option<&str>, message: &str) -> Self {
        let mut answer = Self { status, ..Self::json(&json!({ "error": message })) };
        answer.headers.extend(code.map(|code| ("x-error-code".to_owned(), code.to_owned())));
        answer.with("x-error-message", message)
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Lets the Hub say that a file has this etag.
    fn set_etag(&mut self, etag: &str) {
        let name = if self.status == 302 { "x-linked-etag" } else { "etag" };
        for (_, value) in self.headers.iter_mut().filter(|(header, _)| header == name) {
            *value = format!("{etag:?}");
        }
    }

    /// All of a file, or the range that is asked for.
    fn file(request: &Request, bytes: &[u8], etag: &str) -> Self {
        let etag = format!("{etag:?}");
        if request.headers.get("if-match").is_some_and(|wanted| *wanted != etag) {
            return Self::new(412, "");
        }
        let len = bytes.len();
        let answer = match request.range(len) {
            None => Self::new(200, bytes),
            Some((from, to)) if from >= to => {
                return Self::new(416, "").with("content-range", format!("bytes */{len}"));
            }
            Some((from, to)) => Self::new(206, &bytes[from..to])
                .with("content-range", format!("bytes {from}-{}/{len}", to - 1)),
        };
        answer.with("etag", etag).with("accept-ranges", "bytes")
    }
}

type Answered = Result<Answer, Answer>;

#[derive(Default)]
struct State {
    /// The addresses of both.
    hub: String,
    cdn: String,
    repos: Mutex<BTreeMap<String, Repo>>,
    page_size: AtomicUsize,
    commits: AtomicUsize,
    /// How many locations on the CDN were told, how often each was asked, and how often it answers.
    locations: AtomicUsize,
    asked: Mutex<BTreeMap<usize, usize>>,
    lasting: AtomicUsize,
    leaks: AtomicUsize,
    faults: Mutex<Option<Faults>>,
    requests: Mutex<Vec<Request>>,
    is_over: AtomicBool,
}

/// The Hub and its CDN; they end when it is dropped.
pub(crate) struct Hub {
    state: Arc<State>,
}

impl Hub {
    pub(crate) fn new() -> Self {
        let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let [hub, cdn] = [0, 1].map(|i| listeners[i].local_addr().expect("an address").to_string());
        let state = Arc::new(State {
            hub,
            cdn,
            page_size: 1000.into(),
            lasting: usize::MAX.into(),
            ..State::default()
        });
        for (listener, is_cdn) in listeners.into_iter().zip([false, true]) {
            let state = state.clone();
            thread::spawn(move || state.listen(&listener, is_cdn));
        }
        Self { state }
    }

    /// For `HF_ENDPOINT`.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.state.hub)
    }

    /// Makes a commit that has these files alone, and lets `revision` point to it: a branch, or a whole ref such as
    /// "refs/tags/v1" or "refs/convert/parquet". `repo` is "datasets/OWNER/NAME", "spaces/OWNER/NAME", or
    /// "OWNER/NAME" for a model.
    pub(crate) fn commit(&self, repo: &str, revision: &str, files: &[(&str, &[u8])]) -> String {
        let number = self.state.commits.fetch_add(1, Ordering::SeqCst);
        let files: Files =
            files.iter().map(|(path, bytes)| ((*path).to_owned(), Blob::new(path, bytes))).collect();
        let oids: Vec<_> = files.iter().map(|(path, blob)| (path, &blob.oid)).collect();
        let commit = digest(format!("{number} {repo} {oids:?}").as_bytes(), 40);
        self.change(repo, |repo| {
            repo.commits.insert(commit.clone(), files);
            let is_whole = revision.starts_with("refs/");
            let name = if is_whole { revision.to_owned() } else { format!("refs/heads/{revision}") };
            repo.refs.insert(name, commit.clone());
        });
        commit
    }

    /// Makes a repository private: without `token` it seems not to exist.
    pub(crate) fn require_token(&self, repo: &str, token: &str) {
        self.change(repo, |repo| repo.private = Some(token.to_owned()));
    }

    /// Gates a repository: without `token` it can be described and listed, but its files cannot be read.
    pub(crate) fn gate(&self, repo: &str, token: &str) {
        self.change(repo, |repo| repo.gate = Some(token.to_owned()));
    }

    fn change(&self, repo: &str, how: impl FnOnce(&mut Repo)) {
        how(self.state.repos().entry(repo.to_owned()).or_default());
    }

    /// How many entries a page of a tree has at most.
    pub(crate) fn set_page_size(&self, entries: usize) {
        self.state.page_size.store(entries, Ordering::SeqCst);
    }

    /// From now on the CDN answers so many requests to a location, which expires then.
    pub(crate) fn expire_after(&self, requests: usize) {
        self.state.lasting.store(requests, Ordering::SeqCst);
    }

    /// How many requests to the CDN carried a token.
    pub(crate) fn leaks(&self) -> usize {
        self.state.leaks.load(Ordering::SeqCst)
    }

    /// Lets `faults` say what goes wrong with each request.
    pub(crate) fn with_faults(&self, faults: impl FnMut(&Request) -> Fault + Send + 'static) {
        *self.state.faults.lock().expect("no panic") = Some(Box::new(faults));
    }

    /// The requests since this was asked last, to the Hub and to the CDN.
    pub(crate) fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state.requests.lock().expect("no panic"))
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        // Wakes the listeners.
        for address in [&self.state.hub, &self.state.cdn] {
            let _ = TcpStream::connect(address);
        }
    }
}

/// The same request for as much of the beginning of a file.
fn beginning(request: &Request) -> Request {
    let mut request = request.clone();
    if let Some(range) = request.head.headers.get_mut("range")
        && let Some((from, to)) = range.trim_start_matches("bytes=").split_once('-')
        && let (Ok(from), Ok(to)) = (from.parse::<u64>(), to.parse::<u64>())
    {
        *range = format!("bytes=0-{}", to - from);
    }
    request
}

impl State {
    fn repos(&self) -> MutexGuard<'_, BTreeMap<String, Repo>> {
        self.repos.lock().expect("no panic")
    }

    fn listen(self: Arc<Self>, listener: &TcpListener, is_cdn: bool) {
        for stream in listener.incoming() {
            if self.is_over.load(Ordering::SeqCst) {
                break;
            }
            let (Ok(stream), state) = (stream, self.clone()) else { continue };
            // Or each body waits until the client has acknowledged the head.
            let _ = stream.set_nodelay(true);
            thread::spawn(move || {
                let mut reader = BufReader::new(&stream);
                while let Ok(Some(request)) = read(&mut reader, is_cdn) {
                    if !state.answer(&stream, &request).unwrap_or(false) {
                        break;
                    }
                }
            });
        }
    }

    /// Answers one request; false if the connection is closed then.
    fn answer(&self, mut stream: &TcpStream, request: &Request) -> std::io::Result<bool> {
        self.requests.lock().expect("no panic").push(request.clone());
        let fault = self.faults.lock().expect("no panic").as_mut().map_or(Fault::Nothing, |say| say(request));
        let mut answer = match &fault {
            Fault::Closed => return Ok(false),
            Fault::Status(status, headers) => {
                Answer { headers: headers.clone(), ..Answer::new(*status, "nope") }
            }
            Fault::Body(body) => Answer::json(body),
            Fault::Beginning if request.is_cdn => self.cdn(&beginning(request)),
            _ if request.is_cdn => self.cdn(request),
            _ => self.hub(request).unwrap_or_else(|refusal| refusal),
        };
        if let (Fault::Etag(etag), false) = (&fault, request.is_cdn) {
            answer.set_etag(etag);
        }
        let headers: String =
            answer.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let Answer { status, body, .. } = answer;
        write!(stream, "HTTP/1.1 {status} Answer\r\n{headers}content-length: {}\r\n\r\n", body.len())?;
        if request.method == "HEAD" {
            return Ok(true);
        }
        let sent = if let Fault::Cut(after) = fault { after.min(body.len()) } else { body.len() };
        stream.write_all(&body[..sent])?;
        Ok(sent == body.len())
    }

    fn cdn(&self, request: &Request) -> Answer {
        if request.headers.contains_key("authorization") {
            self.leaks.fetch_add(1, Ordering::SeqCst);
            return Answer::new(400, "Only one auth mechanism allowed");
        }
        let signature = request.parameter("Signature").and_then(|number| number.parse::<usize>().ok());
        let asked = signature.map(|number| {
            let mut asked = self.asked.lock().expect("no panic");
            let asked = asked.entry(number).or_insert(0);
            *asked += 1;
            *asked
        });
        if asked.is_none_or(|asked| asked > self.lasting.load(Ordering::SeqCst)) {
            return Answer::new(403, "<Error><Code>AccessDenied</Code></Error>");
        }
        let hash = request.path.trim_start_matches('/');
        let repos = self.repos();
        let mut blobs = repos.values().flat_map(|repo| repo.commits.values()).flat_map(Files::values);
        match blobs.find(|blob| blob.lfs.as_deref() == Some(hash)) {
            Some(blob) => Answer::file(request, &blob.bytes, &format!("cdn-{hash}")),
            None => Answer::new(404, ""),
        }
    }

    fn hub(&self, request: &Request) -> Answered {
        let parts: Vec<&str> = request.path.split('/').skip(1).collect();
        let (is_api, parts) = parts.strip_prefix(&["api"]).map_or((false, &parts[..]), |parts| (true, parts));
        let (kind, parts) = match parts {
            ["models", parts @ ..] if is_api => ("", parts),
            ["datasets", parts @ ..] => ("datasets/", parts),
            ["spaces", parts @ ..] => ("spaces/", parts),
            parts => ("", parts),
        };
        let [owner, name, rest @ ..] = parts else { return Err(entry_not_found("Not found")) };
        let id = format!("{owner}/{name}");
        let repo = self.repo(request, &format!("{kind}{id}"))?;
        match (is_api, rest) {
            (true, []) => Ok(repo.info(&id, repo.revision(&["main"])?.0)),
            (true, ["revision", rest @ ..]) => Ok(repo.info(&id, repo.revision(rest)?.0)),
            (true, ["refs"]) => Ok(repo.list_refs(request.is_set("include_prs"))),
            (true, ["tree", rest @ ..]) => self.tree(request, &repo, rest),
            (true, ["paths-info", rest @ ..]) => repo.describe(request, rest),
            (false, ["resolve", rest @ ..]) => self.resolve(request, &repo, rest),
            _ => Err(entry_not_found("Not found")),
        }
    }

    /// The repository, if the request may know of it.
    fn repo(&self, request: &Request, name: &str) -> Result<Repo, Answer> {
        let (repos, token) = (self.repos(), request.token());
        let mut known = repos.values().flat_map(|repo| [&repo.private, &repo.gate]).flatten();
        if token.is_some_and(|token| !token.starts_with("hf_") && known.all(|known| known != token)) {
            return Err(Answer::refusal(401, None, "Invalid username or password."));
        }
        let repo = repos.get(name).filter(|repo| repo.private.is_none() || repo.private.as_deref() == token);
        let status = if token.is_some() { 404 } else { 401 };
        repo.cloned().ok_or_else(|| Answer::refusal(status, Some("RepoNotFound"), "Repository not found"))
    }

    fn tree(&self, request: &Request, repo: &Repo, rest: &[&str]) -> Answered {
        let (commit, folder) = repo.revision(rest)?;
        let prefix = if folder.is_empty() { folder } else { folder + "/" };
        let mut entries = entries(commit, &repo.commits[commit], request.is_set("expand"));
        let is_recursive = request.is_set("recursive");
        entries.retain(|path, _| {
            path.strip_prefix(&prefix).is_some_and(|inside| is_recursive || !inside.contains('/'))
        });
        if entries.is_empty() && !prefix.is_empty() {
            return Err(entry_not_found(&format!("{prefix} does not exist at \"{commit}\"")));
        }
        let number = |name| request.parameter(name).and_then(|value| value.parse::<usize>().ok());
        let most = self.page_size.load(Ordering::SeqCst);
        let from = number("cursor").unwrap_or(0);
        let to = from + number("limit").map_or(most, |limit| limit.min(most));
        let page: Value = entries.values().skip(from).take(to - from).cloned().collect();
        let answer = Answer::json(&page);
        if to >= entries.len() {
            return Ok(answer);
        }
        let mut next = format!("<http://{}{}?cursor={to}", self.hub, request.path);
        for field in request.query.split_terminator('&').filter(|field| !field.starts_with("cursor=")) {
            next += &format!("&{field}");
        }
        Ok(answer.with("link", next + ">; rel=\"next\""))
    }

    fn resolve(&self, request: &Request, repo: &Repo, rest: &[&str]) -> Answered {
        if repo.gate.is_some() && repo.gate.as_deref() != request.token() {
            let (status, remedy) = match request.token() {
                None => (401, "Please log in."),
                Some(_) => (403, "You are not in the authorized list."),
            };
            let message = format!("Access is restricted. {remedy}");
            return Err(Answer::refusal(status, Some("GatedRepo"), &message));
        }
        let (commit, path) = repo.revision(rest)?;
        let Some(Blob { bytes, oid, lfs }) = repo.commits[commit].get(&path) else {
            return Err(entry_not_found("Entry not found").with("x-repo-commit", commit));
        };
        let Some(lfs) = lfs else {
            return Ok(Answer::file(request, bytes, oid).with("x-repo-commit", commit));
        };
        let number = self.locations.fetch_add(1, Ordering::SeqCst);
        let location = format!("http://{}/{lfs}?Expires={number}&Signature={number}", self.cdn);
        Ok(Answer::new(302, format!("Found. Redirecting to {location}"))
            .with("location", location)
            .with("x-repo-commit", commit)
            .with("x-linked-etag", format!("{lfs:?}"))
            .with("x-linked-size", bytes.len().to_string())
            .with("etag", format!("{oid:?}"))
            .with("accept-ranges", "bytes"))
    }
}

impl Repo {
    /// The commit and the path that the rest of a request's path stands for.
    fn revision(&self, rest: &[&str]) -> Result<(&str, String), Answer> {
        // A ref's slashes may be escaped or not.
        let (name, path) = rest.split_at(if rest.first() == Some(&"refs") { 3 } else { 1 }.min(rest.len()));
        let name = decoded(&name.join("/"));
        let commit = self.commits.get_key_value(&name).map(|(commit, _)| commit);
        let mut refs = [name.clone(), format!("refs/heads/{name}"), format!("refs/tags/{name}")].into_iter();
        match commit.or_else(|| refs.find_map(|name| self.refs.get(&name))) {
            Some(commit) => Ok((commit, decoded(&path.join("/")))),
            None => Err(Answer::refusal(404, Some("RevisionNotFound"), &format!("Invalid rev id: {name}"))),
        }
    }

    fn info(&self, id: &str, commit: &str) -> Answer {
        let files: Value = self.commits[commit].keys().map(|path| json!({ "rfilename": path })).collect();
        let gated = if self.gate.is_some() { json!("manual") } else { json!(false) };
        Answer::json(&json!({
            "id": id, "sha": commit, "lastModified": DATE, "private": self.private.is_some(), "gated": gated,
            "disabled": false, "downloads": 0, "likes": 0, "tags": [], "siblings": files,
        }))
    }

    fn list_refs(&self, with_pull_requests: bool) -> Answer {
        let refs = |prefix: &str| {
            let list = self.refs.iter().filter_map(|(full, commit)| {
                let name = full.strip_prefix(prefix)?;
                Some(json!({ "name": name, "ref": full, "targetCommit": commit }))
            });
            list.collect::<Value>()
        };
        let (branches, tags, converts) = (refs("refs/heads/"), refs("refs/tags/"), refs("refs/convert/"));
        let mut all = json!({ "branches": branches, "tags": tags, "converts": converts });
        if with_pull_requests {
            all["pullRequests"] = refs("refs/pr/");
        }
        Answer::json(&all)
    }

    /// Describes the paths that a form names, or JSON in which none of them is escaped.
    fn describe(&self, request: &Request, rest: &[&str]) -> Answered {
        let commit = self.revision(rest)?.0;
        let wanted: Vec<String> = match request.body.starts_with('{') {
            true => request.body.split('"').map(str::to_owned).collect(),
            false => form(&request.body).map(|(_, value)| value).collect(),
        };
        let mut entries = entries(commit, &self.commits[commit], request.body.contains("expand=True"));
        entries.retain(|path, _| wanted.contains(path));
        Ok(Answer::json(&entries.into_values().collect::<Value>()))
    }
}

/// Reads one request; nothing if there is none.
fn read(reader: &mut impl BufRead, is_cdn: bool) -> std::io::Result<Option<Request>> {
    let Some(head) = server::Request::read(reader)? else { return Ok(None) };
    let len = head.headers.get("content-length").and_then(|len| len.parse().ok()).unwrap_or(0);
    let mut body = String::new();
    reader.take(len).read_to_string(&mut body)?;
    Ok(Some(Request { head, is_cdn, body }))
}

/// The files and folders of a commit with their descriptions, in the order of their paths.
fn entries(commit: &str, files: &Files, is_expanded: bool) -> BTreeMap<String, Value> {
    let mut entries = BTreeMap::new();
    let mut insert = |kind: &str, path: &str, oid: &str, size: usize, lfs: Option<&String>| {
        let mut entry = json!({ "type": kind, "oid": oid, "size": size, "path": path });
        if let Some(lfs) = lfs {
            entry["lfs"] = json!({ "oid": lfs, "size": size, "pointerSize": 134 });
        }
        if is_expanded {
            entry["lastCommit"] = json!({ "id": commit, "title": "One more", "date": DATE });
        }
        entries.insert(path.to_owned(), entry);
    };
    for (path, Blob { bytes, oid, lfs }) in files {
        for (end, _) in path.match_indices('/') {
            let folder = &path[..end];
            insert("directory", folder, &digest(format!("{commit} {folder}").as_bytes(), 40), 0, None);
        }
        insert("file", path, oid, bytes.len(), lfs.as_ref());
    }
    entries
}

fn entry_not_found(message: &str) -> Answer {
    Answer::refusal(404, Some("EntryNotFound"), message)
}

/// So many hexadecimal digits that stand for these bytes: FNV-1a, drawn out by SplitMix64.
fn digest(bytes: &[u8], digits: usize) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let mut hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step);
    let mut hex = String::new();
    while hex.len() < digits {
        hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hex += &format!("{:016x}", mixed ^ (mixed >> 31));
    }
    hex.truncate(digits);
    hex
}

/// The fields of a query or of a form.
fn form(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split('&').map(|field| {
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        (decoded(name), decoded(&value.replace('+', " ")))
    })
}
