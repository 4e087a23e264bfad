//! Short texts and blocks of characters that engines have cut wrongly, or could.

/// Each stands alone, between others, and in the mixture.
pub(super) const PIECES: &[&str] = &[
    // White space of every kind, alone and in runs.
    " ", "  ", "   ", "        ", "\t", "\t\t", "\n", "\n\n", "\n\n\n", "\r", "\r\n", "\r\n\r\n", " \n",
    "\n ", " \t", "\t ", " \r\n ", "\n    ", "\n\t\t", "\u{a0}", "\u{a0}\u{a0}", " \u{a0}", "\u{a0} ",
    "\u{2003}", "\u{2003} ", "\u{3000}", "\u{3000}\u{3000}", "\u{2028}", "\u{2029}", "\u{85}", "\u{b}",
    "\u{c}", "\u{1680}", "\u{200b}", "\u{feff}", "\u{180e}",
    // Contractions in every case, with the typographic apostrophe, and their lookalikes.
    "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'VE", "'M", "'LL", "'D", "'Re", "'lL",
    "'", "''", "'x", "'\u{17f}", "\u{2019}s", "\u{2019}re", " 's", "I'm", "we'll've", "DON'T", "O'Neil's",
    "'sa", "'tis",
    // Words in several scripts; cases that change length; combining marks; right to left.
    "the", "The", "THE", "camelCase", "HTTPServer", "snake_case", "ß", "ẞ", "İ", "ı", "ǅ", "ﬁ", "naïve",
    "nai\u{308}ve", "e\u{301}\u{302}", "\u{301}", "\u{301}a", "Ω", "ώρα", "Привет", "שלום", "שָׁלוֹם", "مرحبا",
    "हिन्दी", "ไทยคำ", "မြန်မာ", "한국어", "\u{1112}\u{1161}\u{11ab}", "日本語", "ひらがなカタカナー",
    "中文字符", "々", "〇", "Å", "𝒜𝓃", "𐐷", "ʰ", "ª", "ℵ", "ⅷ",
    // Digits: other scripts, other numbers.
    "٣", "٤٥٦", "९८७६", "一二三", "½", "²³", "①②", "Ⅻ", "𝟘𝟙𝟚𝟛", "０１２３", "3.14159", "1,000,000", "0x1F",
    "1e-9", // Emoji: joiners, skin tones, flags, keycaps.
    "😀", "😀😀", "👩‍👩‍👧‍👦", "👍🏽", "🇩🇪🇫🇷", "1️⃣", "❤️", "🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    // Control characters, unassigned and private ones.
    "\0", "\0\0", "\u{1}", "\u{7}", "\u{8}", "\u{1b}[0m", "\u{7f}", "\u{9f}", "\u{ad}", "\u{200d}",
    "\u{200e}", "\u{202e}", "\u{fffd}", "\u{ffff}", "\u{e000}", "\u{10ffff}", "\u{378}",
    // Punctuation, in runs and beside line ends and slashes.
    ".", "...", "!?", "--", "----------------", "==", "//", "///", "/*", "*/", "</", "/>", "{}", "}}",
    "});\n", ");\r\n", "\"\"\"", "```", "::", "->", "=>", "&&", "||", "#![", "@", "$", "€", "°", "±", "«",
    "»", "—", "…", "、", "。", "?/\n", "_", "__", "___init___",
    // Texts that imitate special tokens.
    "<|endoftext|>", "<|im_start|>", "<s>", "</s>", "[CLS]", "[SEP]", "<unk>", "<0x0A>", "▁", "▁▁", "Ġ", "Ċ",
    "##ing",
];

/// The blocks in which recent versions of Unicode assigned characters, first and last.
pub(super) const RECENT: &[(u32, u32)] = &[
    (0x0870, 0x08ff),
    (0x0c5c, 0x0cf3),
    (0x1acf, 0x1aee),
    (0x1c80, 0x1c8f),
    (0x20bf, 0x20c1),
    (0x2427, 0x2429),
    (0x2ffc, 0x2fff),
    (0x31e4, 0x31ef),
    (0xa7c0, 0xa7ff),
    (0x105c0, 0x105f3),
    (0x10940, 0x1095f),
    (0x10d40, 0x10d8f),
    (0x10ec2, 0x10ec7),
    (0x11380, 0x113e2),
    (0x116d0, 0x116e3),
    (0x11b60, 0x11b67),
    (0x11bc0, 0x11bf9),
    (0x11db0, 0x11de9),
    (0x13460, 0x1347f),
    (0x16100, 0x16139),
    (0x16d40, 0x16d79),
    (0x16ea0, 0x16ed3),
    (0x18cff, 0x18d1e),
    (0x1cc00, 0x1cc0f),
    (0x1cebb, 0x1cef0),
    (0x1e5d0, 0x1e5ff),
    (0x1e6c0, 0x1e6ff),
    (0x1fa70, 0x1faff),
    (0x2ebf0, 0x2ebff),
    (0x323b0, 0x323bf),
];
