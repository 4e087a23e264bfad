//! Object stores: S3 by a real server (moto's), Google's by one that answers as theirs does.
//!
//! Credentials and endpoints come by the environment, so each corpus is read by a child process that has one.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use millstream::Batch;
use millstream::config::{ByteCount, SourceConfig};

use super::corpus::{batches, block_on, chain, config, files, hasty, lines, rows, write};
use crate::support::moto::Moto;
use crate::support::server::{Content, Server};
use crate::support::wait::PATIENCE;

const CHILD: &str = "MILLSTREAM_TEST_STORE";

/// Reads the paths that the environment names, and writes the rows, or the error, to a file that it names.
#[test]
#[ignore = "other tests start it as their child"]
fn child() {
    let Ok(orders) = std::env::var(CHILD) else { return };
    let (out, rest) = orders.split_once('\n').expect("orders");
    let (deadline, paths) = rest.split_once('\n').expect("orders");
    let mut config = config(lines(paths.lines().map(str::to_owned).collect()));
    config.store.deadline = deadline.parse().expect("seconds");
    let said = match block_on(batches(&config)) {
        Ok(batches) => digest(&batches),
        Err(error) => chain(&error),
    };
    std::fs::write(out, said).expect("written");
}

/// What a child with this environment makes of these paths.
fn read(paths: &[&str], environment: &[(&str, &str)]) -> String {
    read_within(PATIENCE.as_secs_f64(), paths, environment)
}

/// The same, where nothing answers: after so many seconds it gives up.
fn read_within(deadline: f64, paths: &[&str], environment: &[(&str, &str)]) -> String {
    let out = tempfile::NamedTempFile::new().expect("a file");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "stores::child", "--ignored"]).stdout(Stdio::null());
    let clouds = ["AWS_", "GOOGLE_", "AZURE_", "SERVICE_ACCOUNT"];
    for (key, _) in std::env::vars().filter(|(key, _)| clouds.iter().any(|cloud| key.starts_with(cloud))) {
        command.env_remove(key);
    }
    command.envs(environment.iter().copied());
    command.env(CHILD, format!("{}\n{deadline}\n{}", out.path().display(), paths.join("\n")));
    assert!(command.status().expect("it runs").success());
    std::fs::read_to_string(out.path()).expect("what it says")
}

/// The rows of the same files on disk.
fn expected(files: &[(String, Vec<u8>)], pattern: &str) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path(), files);
    let config = config(lines(vec![format!("{}/{pattern}", directory.path().display())]));
    digest(&block_on(batches(&config)).expect("no errors"))
}

fn digest(batches: &[Batch]) -> String {
    format!("{} batches, {}", batches.len(), blake3::hash(format!("{:?}", rows(batches)).as_bytes()).to_hex())
}

#[test]
fn s3_is_read_as_files_on_disk_are() {
    let Some(moto) = Moto::start_or_skip("stores::s3_is_read_as_files_on_disk_are") else { return };
    let mut files = files(&[300, 0, 500, 40]);
    let text = |text: &str| text.as_bytes().to_vec();
    files.push(("d/e/deep.txt".to_owned(), text("deep\n")));
    files.push(("d/.hidden ~ü.txt".to_owned(), text("hidden\n")));
    files.push(("d/e/other.json".to_owned(), text("{}")));
    files.push(("dd/beside.txt".to_owned(), text("beside\n")));
    moto.put("/corpus", b"");
    for (name, bytes) in &files {
        let name = name.replace(' ', "%20").replace('ü', "%C3%BC");
        moto.put(&format!("/corpus/{name}"), bytes);
    }
    // As the console of S3 makes a directory.
    moto.put("/corpus/d/e/", b"");
    let endpoint = moto.endpoint();
    let environment = Moto::environment(&endpoint);
    for pattern in ["d/*.txt", "**/*.txt", "d/**/*.txt", "d/00[02].txt", "d/002.txt", "*/beside.txt", "d/**"]
    {
        assert_eq!(
            read(&[&format!("s3://corpus/{pattern}")], &environment),
            expected(&files, pattern),
            "{pattern}"
        );
    }
    let said = |path: &str| read(&[path], &environment);
    assert_eq!(
        said("s3://corpus/x/*.txt"),
        "no file matches \"s3://corpus/x/*.txt\"; set source.0.paths to the corpus's files, such as \"corpus/**/*.txt\""
    );
    assert_eq!(
        said("s3://corpus/d/*.csv"),
        "no file matches \"s3://corpus/d/*.csv\"; there are \"d/e/\", \"d/.hidden ~ü.txt\", \"d/000.txt\", \"d/001.txt\", \
         \"d/002.txt\", \"d/003.txt\": set source.0.paths to the corpus's files among them"
    );
    assert_eq!(
        said("s3://corpus/d/e"),
        "\"s3://corpus/d/e\" is a directory; set source.0.paths to the files in it, such as \"s3://corpus/d/e/**/*.txt\""
    );
    assert!(said("s3://corpus/d/[.txt").contains("is not a valid pattern: "));
    assert!(said("s3://nowhere/*.txt").contains("s3://nowhere/*.txt: cannot list the files: "));
    let public = [environment[0], environment[1], environment[4], ("AWS_SKIP_SIGNATURE", "true")];
    let said = read(&["s3://corpus/d/002.txt"], &public);
    assert!(said.contains("cannot look at the file") || said == expected(&files, "d/002.txt"), "{said}");
}

#[test]
fn google_is_read_as_files_on_disk_are() {
    let mut files = files(&[300, 500]);
    files.push(("d/.hidden.txt".to_owned(), b"hidden\n".to_vec()));
    let contents = |name: &str, bytes: &[u8]| (format!("corpus/{name}"), dated(Content::new(bytes)));
    let mut served: BTreeMap<String, Content> =
        files.iter().map(|(name, bytes)| contents(name, bytes)).collect();
    // Keys that no path can name; the last is wanted by a pattern.
    let odd = ["_tmp//attempt_1", "./d.txt", "../d/x.txt", "d/a&#x9;b.json", "odd//d.md"];
    let odd: String = odd.map(|key| entry(key, 4)).concat();
    let listed: String = files.iter().map(|(name, bytes)| entry(name, bytes.len())).collect();
    let list = format!("<ListBucketResult>{odd}{listed}</ListBucketResult>");
    served.insert("corpus".to_owned(), dated(Content::new(list.clone())));
    served.insert("corpus/".to_owned(), dated(Content::new(list)));
    let server = Server::new(served);
    let base = server.url("").trim_end_matches('/').to_owned();
    let environment = [
        ("GOOGLE_BASE_URL", base.as_str()),
        ("GOOGLE_SKIP_SIGNATURE", "true"),
        ("GOOGLE_ALLOW_HTTP", "true"),
    ];
    let both = expected(&files, "d/00[01].txt");
    for pattern in ["d/*.txt", "**/*.txt", "d/{000..001}.txt", "d/{000,0*1}.txt"] {
        assert_eq!(read(&[&format!("gs://corpus/{pattern}")], &environment), both, "{pattern}");
        assert_eq!(expected(&files, pattern), both, "{pattern}");
    }
    assert_eq!(read(&["gs://corpus/d/.*.txt"], &environment), expected(&files, "d/.*.txt"));
    for (pattern, key) in [("odd/**", "odd//d.md"), ("d/*.json", "d/a\\tb.json")] {
        let said = read(&[&format!("gs://corpus/{pattern}")], &environment);
        assert!(said.contains(key) && said.contains("rename the object"), "{said}");
    }
}

/// An object in a listing.
fn entry(key: &str, len: usize) -> String {
    format!(
        "<Contents><Key>{key}</Key><LastModified>2026-11-21T10:00:00.000Z</LastModified><ETag>\"one\"</ETag>\
         <Size>{len}</Size></Contents>"
    )
}

fn dated(content: Content) -> Content {
    Content { modified: Some("Sat, 21 Nov 2026 10:00:00 GMT".to_owned()), ..content }
}

#[test]
fn a_store_without_credentials_says_so() {
    let said = read_within(
        3.0,
        &["s3://corpus/*.txt"],
        &[("AWS_ENDPOINT_URL", "http://127.0.0.1:9"), ("AWS_ALLOW_HTTP", "true")],
    );
    assert!(said.contains("AWS_SKIP_SIGNATURE=true"), "{said}");
    let said = read_within(3.0, &["az://corpus/*.txt"], &[]);
    assert!(said.contains("az://corpus: cannot connect: "), "{said}");
}

#[test]
fn a_config_of_a_store_is_one_like_others() {
    let source = SourceConfig { split: Some(ByteCount(4)), ..lines(vec!["s3://b/*.txt".to_owned()]) };
    let config = config(source);
    let text = serde_json::to_string(&config).expect("JSON");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("c.json");
    std::fs::write(&path, text).expect("written");
    assert_eq!(millstream::Config::load(Path::new(&path)).expect("it loads"), config);
    assert_eq!(config.store, hasty());
}
