//! This process as the system sees it; on Linux, in `/proc/self`. Nothing is held.

use std::io::Read;
use std::path::PathBuf;

/// A field of `/proc/self/status`, such as `VmRSS`; `None` where there is no such file, as outside Linux.
pub fn status(field: &str) -> Option<String> {
    of(&std::fs::read_to_string("/proc/self/status").ok()?, field).map(str::to_owned)
}

/// The resident memory of this process now, in bytes; `None` on systems that do not report it.
pub fn resident_bytes() -> Option<u64> {
    bytes(&status("VmRSS")?)
}

/// The peak of its resident memory, in bytes; `None` on systems that do not report it.
pub fn peak_resident_bytes() -> Option<u64> {
    bytes(&status("VmHWM")?)
}

/// The file that this code was loaded from: the program or, in a program such as Python, a library. On Linux
/// `/proc/self/maps` names it; elsewhere it is the program.
pub fn image() -> std::io::Result<PathBuf> {
    let code = image as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    match mapped_at(&maps, code) {
        Some(path) => Ok(path.into()),
        None => std::env::current_exe(),
    }
}

/// Ends this process when its parent ends, with exit code 1. The parent holds this one's standard input open, and writes
/// no more to it: it closes with the parent.
#[doc(hidden)]
pub fn end_with_parent() {
    std::thread::spawn(|| {
        let mut input = std::io::stdin().lock();
        while input.read(&mut [0; 64]).is_ok_and(|len| len > 0) {}
        std::process::exit(1);
    });
}

/// The path of the mapping around an address.
fn mapped_at(maps: &str, address: usize) -> Option<&str> {
    maps.lines().find_map(|line| {
        // 7f0c1000-7f0c9000 r-xp 00001000 08:01 1234   /lib/some.so
        let (from, rest) = line.split_once('-')?;
        let (to, rest) = rest.split_once(' ')?;
        let [from, to] = [from, to].map(|end| usize::from_str_radix(end, 16));
        let path = rest.find('/').map(|at| &rest[at..])?;
        (from.ok()?..to.ok()?).contains(&address).then_some(path)
    })
}

fn of<'a>(status: &'a str, field: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim)
}

/// An amount of memory, such as `1024 kB`, in bytes.
fn bytes(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let status =
            "Name:\tmillstream\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nSigIgn:\t0000000000000001\n";
        assert_eq!(of(status, "VmRSS").and_then(bytes), Some(1 << 20));
        assert_eq!(of(status, "VmHWM").and_then(bytes), Some(2 << 20));
        assert_eq!(of(status, "SigIgn"), Some("0000000000000001"));
        assert_eq!((of(status, "Vm"), of(status, "VmSwap"), bytes("many kB")), (None, None, None));
    }

    #[test]
    fn a_mapping_is_found_by_an_address_in_it() {
        let maps = "1000-2000 r--p 00000000 08:01 12   /usr/bin/python\n2000-3000 rw-p 00000000 00:00 0 [heap]\n\
                    3000-5000 r-xp 00001000 08:01 13   /site packages/a.so\n";
        let at = |address| mapped_at(maps, address);
        assert_eq!(
            [at(0x1fff), at(0x2000), at(0x3000)],
            [Some("/usr/bin/python"), None, Some("/site packages/a.so")]
        );
        assert_eq!([at(0x4fff), at(0x5000), at(0)], [Some("/site packages/a.so"), None, None]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_code_is_in_the_test_program() {
        assert_eq!(image().expect("a file"), std::env::current_exe().expect("a program"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_never_larger_than_it_has_been() {
        let (now, peak) = (resident_bytes().expect("told"), peak_resident_bytes().expect("told"));
        assert!(now > 1 << 16 && now <= peak, "{now} and {peak}");
    }
}
