//! NVIDIA's library of mathematical functions, which CubeCL links into the kernels that it compiles for CUDA. Without it
//! the first kernel with an `exp` fails, in the middle of a run.

use std::env;
use std::path::{Path, PathBuf};

use millstream::error::{Error, Result};

/// Where CubeCL looks for a toolkit if `CUDA_PATH` is not set: `cubecl-llvm`, `src/nvptx/libdevice.rs`.
const ROOTS: [&str; 4] = ["/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda", "/usr"];

/// Checks that CubeCL will find the library.
pub(super) fn check() -> Result<()> {
    check_in(env::var("CUDA_PATH").ok().map(PathBuf::from), &ROOTS)
}

fn check_in(named: Option<PathBuf>, roots: &[impl AsRef<Path>]) -> Result<()> {
    let directory = |root: &Path| root.join("nvvm").join("libdevice");
    let found = || roots.iter().map(AsRef::as_ref).find(|root| directory(root).is_dir()).map(Path::to_owned);
    let at = named.clone().or_else(found).map(|root| directory(&root).join("libdevice.10.bc"));
    if at.as_deref().is_some_and(Path::is_file) {
        return Ok(());
    }
    let place = match named {
        Some(root) => format!("in CUDA_PATH, {}", root.display()),
        None => "in the usual places".to_owned(),
    };
    let problem = format!(
        "`cuda` needs NVIDIA's CUDA toolkit for its nvvm/libdevice/libdevice.10.bc, which is not {place}; install the \
         toolkit, and set CUDA_PATH to the directory that holds `nvvm`"
    );
    Err(Error::config("train.device", problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_toolkit_is_found_where_cubecl_looks() {
        let toolkit = tempfile::tempdir().expect("a directory");
        let roots = [toolkit.path()];
        let error = |named: Option<PathBuf>| check_in(named, &roots).expect_err("no library").to_string();
        assert!(error(None).contains("not in the usual places"), "{}", error(None));
        let directory = toolkit.path().join("nvvm/libdevice");
        std::fs::create_dir_all(&directory).expect("a directory");
        assert!(error(None).contains("libdevice.10.bc"), "{}", error(None));
        std::fs::write(directory.join("libdevice.10.bc"), "BC").expect("a file");
        check_in(None, &roots).expect("it is there");
        // As for CubeCL, a named directory is the only one that counts.
        let elsewhere = toolkit.path().join("nvvm");
        assert!(error(Some(elsewhere.clone())).contains(&*elsewhere.to_string_lossy()));
    }
}
