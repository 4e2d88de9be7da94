//! Texts for the property tests of the writers.

use proptest::prelude::*;

/// Text with marks of every kind, whole and broken.
pub(super) fn markdownish() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-z]{1,9}",
        3 => Just(" ".to_owned()),
        3 => Just("\n".to_owned()),
        1 => Just("\n\n".to_owned()),
        2 => "[-*_~`#>|+\\[\\]()\\\\.:!<&\"=1é字🎉\u{301}\u{a0}\t\r\0]{1,4}",
        2 => prop::sample::select(vec![
            "**", "*", "~~", "`", "[a](b)", "[a](https://b)", "![", "[", "](https://c\"&)", "[a]", "[a]: tg://d\n",
            "<br>", "<!-- ", " -->", "<https://e>", "<f@g.h>", "&lt;", "&nbsp;", "&#60;", "\\", "[`c`](https://i)",
            "[[1]](https://j_k(l))", "https://m_n_o", "<@U1>", "<!channel>", "_", "__", "||", "```", "1\\. ", "\\# ", "\\> ", "\\- ",
        ])
        .prop_map(str::to_owned),
        3 => prop::sample::select(vec![
            "\n```rs\n", "\n~~~\n", "\n```\n", "\n> ", "\n>> ", "\n- ", "\n  - ", "\n    * ", "\n1. ", "\n   99. ", "\n- [ ] ",
            "\n- ```\n", "\n---\n", "\n# ", "\n#### ", "\n===\n", "\n\n|a|b|\n|-|:-:|\n", "\n|c|", "\n<div>\n", "\n    ", "\n> - > ",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

/// The characters that no writer may lose.
pub(super) fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}
