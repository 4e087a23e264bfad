//! Texts as compressed files: many members, streams or frames, with and without what may stand beside them.

#![allow(dead_code, reason = "no binary uses all of it")]

use std::io::Write;

use proptest::prelude::*;
use twox_hash::XxHash64;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Bzip2,
    Xz,
    /// Each frame says how long its text is.
    Sized,
    /// None does.
    Streamed,
    /// A table at the end says it, with checksums or without.
    Seekable {
        checks: bool,
    },
}

impl Packing {
    pub(crate) const ALL: [Self; 7] = [
        Self::Gzip,
        Self::Bzip2,
        Self::Xz,
        Self::Sized,
        Self::Streamed,
        Self::Seekable { checks: false },
        Self::Seekable { checks: true },
    ];

    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Gzip => "gz",
            Self::Bzip2 => "bz2",
            Self::Xz => "xz",
            Self::Sized | Self::Streamed | Self::Seekable { .. } => "zst",
        }
    }

    fn member(self, text: &[u8]) -> Vec<u8> {
        let all = "written to memory";
        match self {
            Self::Gzip => {
                let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                packer.write_all(text).expect(all);
                packer.finish().expect(all)
            }
            Self::Bzip2 => {
                let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
                packer.write_all(text).expect(all);
                packer.finish().expect(all)
            }
            Self::Xz => {
                let mut packer = liblzma::write::XzEncoder::new(Vec::new(), 0);
                packer.write_all(text).expect(all);
                packer.finish().expect(all)
            }
            Self::Sized | Self::Streamed | Self::Seekable { .. } => {
                let mut packer = zstd::stream::write::Encoder::new(Vec::new(), 1).expect(all);
                packer.include_checksum(true).expect(all);
                if self == Self::Sized {
                    packer.set_pledged_src_size(Some(text.len() as u64)).expect(all);
                }
                packer.write_all(text).expect(all);
                packer.finish().expect(all)
            }
        }
    }

    /// The file of `text`, cut into members after so many bytes each, over and over.
    pub(crate) fn pack(self, text: &[u8], cuts: &[usize]) -> Packed {
        let mut packed = Packed::default();
        let mut cuts = cuts.iter().cycle();
        let mut rest = text;
        loop {
            let (part, after) = rest.split_at(rest.len().min(*cuts.next().expect("one or more")));
            let member = self.member(part);
            packed.entries.push([member.len() as u32, part.len() as u32, XxHash64::oneshot(0, part) as u32]);
            packed.bytes.extend(member);
            packed.ends.push(packed.bytes.len());
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        match self {
            Self::Gzip => packed.bytes.extend([0; 40]),
            Self::Xz => packed.bytes.extend([0; 8]),
            Self::Seekable { checks } => packed.bytes.extend(table(&packed.entries, checks)),
            Self::Bzip2 | Self::Sized | Self::Streamed => {}
        }
        packed
    }
}

/// A compressed file.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    pub(crate) bytes: Vec<u8>,
    /// Where its members end.
    pub(crate) ends: Vec<usize>,
    /// Each member's length, that of its text, and the text's checksum.
    pub(crate) entries: Vec<[u32; 3]>,
}

/// A seek table, as the seekable format has it.
pub(crate) fn table(entries: &[[u32; 3]], checks: bool) -> Vec<u8> {
    let fields = if checks { 3 } else { 2 };
    let body = (entries.len() * fields * 4 + 9) as u32;
    let mut table = [0x184d_2a5e_u32.to_le_bytes(), body.to_le_bytes()].concat();
    for entry in entries {
        entry[..fields].iter().for_each(|field| table.extend(field.to_le_bytes()));
    }
    table.extend((entries.len() as u32).to_le_bytes());
    table.push(if checks { 0x80 } else { 0 });
    table.extend(0x8f92_eab1_u32.to_le_bytes());
    table
}

pub(crate) fn packing() -> impl Strategy<Value = Packing> {
    prop::sample::select(Packing::ALL.to_vec())
}

/// How long members are; some are empty.
pub(crate) fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        2 => Just(vec![usize::MAX]),
        3 => prop::collection::vec(prop_oneof![4 => 1_usize..60, 1 => Just(0_usize)], 0..4).prop_map(|mut cuts| {
            cuts.push(30);
            cuts
        }),
    ]
}

/// What trips readers, and what most texts are made of.
pub(crate) fn text() -> impl Strategy<Value = Vec<u8>> {
    let usual = prop::sample::select(vec!["a", "word ", "é", "漢字", " ", "\t"]).prop_map(str::as_bytes);
    let ends = prop::sample::select(vec!["\n", "\r\n", "\n\n", "\n \t\n", "\r"]).prop_map(str::as_bytes);
    let long = (20_usize..90).prop_map(|n| "long ".repeat(n).into_bytes());
    let part = prop_oneof![
        8 => usual.prop_map(<[u8]>::to_vec),
        5 => ends.prop_map(<[u8]>::to_vec),
        1 => long,
        1 => Just(b"\xff".to_vec()),
    ];
    let bom = prop_oneof![5 => Just(Vec::new()), 1 => Just(b"\xef\xbb\xbf".to_vec())];
    (bom, prop::collection::vec(part, 0..40)).prop_map(|(bom, parts)| [bom, parts.concat()].concat())
}
