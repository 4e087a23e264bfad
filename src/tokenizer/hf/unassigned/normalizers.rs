//! The characters that the reference's normalizers do not know: their tables are of Unicode 9.

/// The characters, first and last of each range, that later versions of Unicode decompose, compose, order or strip in
/// another way. A text without them is normalized alike by both engines.
#[rustfmt::skip]
pub(super) const RANGES: &[(u32, u32)] = &[
    (0x7fd, 0x7fd), (0x897, 0x89f), (0x8ca, 0x8d3), (0x9fe, 0x9fe), (0xafa, 0xaff), (0xb55, 0xb55),
    (0xc04, 0xc04), (0xc3c, 0xc3c), (0xcf3, 0xcf3), (0xd00, 0xd00), (0xd3b, 0xd3c), (0xd81, 0xd81),
    (0xeba, 0xeba), (0xece, 0xece), (0x1715, 0x1715), (0x180f, 0x180f), (0x1abf, 0x1add),
    (0x1ae0, 0x1aeb), (0x1cf2, 0x1cf3), (0x1cf7, 0x1cf7), (0x1df6, 0x1dfa), (0x32ff, 0x32ff),
    (0xa7f1, 0xa7f4), (0xa82c, 0xa82c), (0xa8ff, 0xa8ff), (0xab69, 0xab69), (0x105c9, 0x105c9),
    (0x105d2, 0x105d2), (0x105da, 0x105da), (0x105e4, 0x105e4), (0x10781, 0x10785),
    (0x10787, 0x107b0), (0x107b2, 0x107ba), (0x10d24, 0x10d27), (0x10d69, 0x10d6d),
    (0x10eab, 0x10eac), (0x10efa, 0x10eff), (0x10f46, 0x10f50), (0x10f82, 0x10f85),
    (0x11070, 0x11070), (0x11073, 0x11074), (0x110c2, 0x110c2), (0x11145, 0x11146),
    (0x111c9, 0x111c9), (0x111ce, 0x111cf), (0x11241, 0x11241), (0x1133b, 0x1133b),
    (0x11383, 0x11383), (0x11385, 0x11385), (0x1138e, 0x1138e), (0x11391, 0x11391),
    (0x113b8, 0x113c0), (0x113c2, 0x113c2), (0x113c5, 0x113c5), (0x113c7, 0x113ca),
    (0x113cc, 0x113d0), (0x113d2, 0x113d2), (0x113e1, 0x113e2), (0x1145e, 0x1145e),
    (0x1182c, 0x1183a), (0x11930, 0x11935), (0x11937, 0x11938), (0x1193b, 0x1193e),
    (0x11940, 0x11940), (0x11942, 0x11943), (0x119d1, 0x119d7), (0x119da, 0x119e0),
    (0x119e4, 0x119e4), (0x11a01, 0x11a0a), (0x11a33, 0x11a39), (0x11a3b, 0x11a3e),
    (0x11a47, 0x11a47), (0x11a51, 0x11a5b), (0x11a8a, 0x11a99), (0x11b60, 0x11b67),
    (0x11d31, 0x11d36), (0x11d3a, 0x11d3a), (0x11d3c, 0x11d3d), (0x11d3f, 0x11d45),
    (0x11d47, 0x11d47), (0x11d8a, 0x11d8e), (0x11d90, 0x11d91), (0x11d93, 0x11d97),
    (0x11ef3, 0x11ef6), (0x11f00, 0x11f01), (0x11f03, 0x11f03), (0x11f34, 0x11f3a),
    (0x11f3e, 0x11f42), (0x11f5a, 0x11f5a), (0x13440, 0x13440), (0x13447, 0x13455),
    (0x1611e, 0x1612f), (0x16d67, 0x16d6a), (0x16f4f, 0x16f4f), (0x16f7f, 0x16f87),
    (0x16fe4, 0x16fe4), (0x16ff0, 0x16ff1), (0x1ccd6, 0x1ccf9), (0x1cf00, 0x1cf2d),
    (0x1cf30, 0x1cf46), (0x1e030, 0x1e06d), (0x1e08f, 0x1e08f), (0x1e130, 0x1e136),
    (0x1e2ae, 0x1e2ae), (0x1e2ec, 0x1e2ef), (0x1e4ec, 0x1e4ef), (0x1e5ee, 0x1e5ef),
    (0x1e6e3, 0x1e6e3), (0x1e6e6, 0x1e6e6), (0x1e6ee, 0x1e6ef), (0x1e6f5, 0x1e6f5),
    (0x1f16c, 0x1f16c), (0x1fbf0, 0x1fbf9),
];

#[cfg(test)]
mod tests {
    use tokenizers::normalizers as fast;
    use tokenizers::pipeline::Normalizer as _;
    use tokenizers_reference::normalizers as reference;
    use tokenizers_reference::{NormalizedString, Normalizer as _};

    use super::super::has_any;

    /// Texts in which a normalizer that treats the character in another way must show it: alone, doubled, and among
    /// marks that are sorted around it. Then each character's parts, which are composed again.
    fn texts() -> impl Iterator<Item = String> {
        let all = || (0..=char::MAX as u32).filter_map(char::from_u32);
        let alone = all().map(|c| format!("{c}a{c}{c}a\u{345}{c}\u{334}b"));
        let parts = all().filter_map(|c| {
            let whole = c.to_string();
            let parts = fast::NFD.normalize(&whole, 0).expect("its parts");
            (*parts != *whole).then(|| format!("{parts}a"))
        });
        let known = |text: &String| !has_any(text);
        let texts: Vec<String> = alone.chain(parts).filter(known).collect();
        // Together, as that is faster.
        texts.chunks(64).map(<[_]>::concat).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn both_engines_normalize_all_other_characters_alike() {
        macro_rules! same {
            ($text:expr, $(($fast:expr, $reference:expr)),+ $(,)?) => {$({
                let mut right = NormalizedString::from($text.as_str());
                $reference.normalize(&mut right).expect("it ends");
                let ours = $fast.normalize(&$text, 0).expect("it ends");
                assert_eq!(*ours, *right.get(), "{} of {:?}", stringify!($fast), $text);
            })+};
        }
        for text in texts() {
            same!(
                text,
                (fast::NFC, reference::NFC),
                (fast::NFD, reference::NFD),
                (fast::NFKC, reference::NFKC),
                (fast::NFKD, reference::NFKD),
                (fast::Nmt, reference::Nmt),
                (fast::Lowercase, reference::Lowercase),
                (fast::StripAccents::new(), reference::StripAccents),
                (fast::BertNormalizer::default(), reference::BertNormalizer::default()),
            );
        }
    }

    #[test]
    fn pairs_that_only_a_later_unicode_composes_are_found() {
        for text in ["\u{113c2}\u{113c2}", "\u{1138b}\u{113c2}", "\u{105d2}\u{307}", "\u{16d63}\u{16d67}"] {
            assert!(has_any(text), "{text:?}");
        }
        assert!(!has_any("e\u{301}a\u{307}"));
    }
}
