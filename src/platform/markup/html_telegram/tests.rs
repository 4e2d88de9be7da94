//! Tests every rule of the HTML by example, and the properties of all texts.

use proptest::prelude::*;

use super::super::parse;
use super::super::samples::markdownish;
use super::*;

fn html(markdown: &str) -> String {
    write(&parse(markdown))
}

#[track_caller]
fn shows(markdown: &str, expected: &str) {
    assert_eq!(html(markdown), expected, "{markdown:?}");
}

#[test]
fn marks_become_tags() {
    shows(
        "**b** *i* _i_ ~~s~~ `c`",
        "<b>b</b> <i>i</i> <i>i</i> <s>s</s> <code>c</code>",
    );
    shows("***x*** **a *b* c**", "<b><i>x</i></b> <b>a <i>b</i> c</b>");
    shows("**a **b** c**", "<b>a b c</b>");
    shows("snake_case 2 * 3 * 4", "snake_case 2 * 3 * 4");
    shows(r"\*a\* &amp; &copy; \\", r"*a* &amp; © \");
}

#[test]
fn text_is_escaped() {
    shows("a < b && \"c\"", "a &lt; b &amp;&amp; &quot;c&quot;");
    shows("`<b>&`", "<code>&lt;b&gt;&amp;</code>");
    shows("a <b>x</b><br>", "a &lt;b&gt;x&lt;/b&gt;&lt;br&gt;");
    shows(
        "<div>\n  *a*\n</div>\n\n*b*",
        "&lt;div&gt;\n  *a*\n&lt;/div&gt;\n\n<i>b</i>",
    );
}

#[test]
fn no_name_is_a_mention() {
    shows(
        "@ada_l and **@ben**",
        "@\u{2060}ada_l and <b>@\u{2060}ben</b>",
    );
    shows("@**carol**", "@\u{2060}<b>carol</b>");
    shows("ada@example.org costs 2 @ 3", "ada@example.org costs 2 @ 3");
    shows("`@ada_l`", "<code>@ada_l</code>");
    assert!(!html("[Ada](tg://user?id=42)").contains("href"));
}

#[test]
fn blocks_are_set_apart() {
    shows(
        "# A *b*\ntext\n***\nend",
        "<b>A <i>b</i></b>\n\ntext\n\n———\n\nend",
    );
    shows("# A\n# B", "<b>A</b>\n\n<b>B</b>");
    shows("a\nb  \nc\n\n\n\nd\r\ne", "a\nb\nc\n\nd\ne");
    shows("\n\n  a\n\n", "a");
    shows("&nbsp;\n\na\n\n&nbsp;", "a");
}

#[test]
fn lists_have_their_markers() {
    shows("a\n- b\n- c\n\nd", "a\n\n• b\n• c\n\nd");
    shows(
        "- a\n  - b\n    - c\n      d\n- e",
        "• a\n  ◦ b\n    • c\n      d\n• e",
    );
    shows("7. a\n   - b\n1. c\n2) d", "7. a\n  ◦ b\n8. c\n\n2. d");
    shows("1. a\n\n   b\n\n2. c", "1. a\n\n  b\n\n2. c");
    shows("- [ ] a\n- [x] b\n1. [ ] c", "☐ a\n☑ b\n\n1. ☐ c");
    shows("- [x] a\n\n- **b**\n-", "☑ a\n\n• <b>b</b>\n•");
    shows("- - a\n- # b", "•\n  ◦ a\n• <b>b</b>");
    shows(
        "1. a:\n   ```sh\n   b\n     c\n   ```\n2. d",
        "1. a:\n<pre><code class=\"language-sh\">b\n  c</code></pre>\n2. d",
    );
    shows("- ```\n  a\n  ```", "•\n<pre>a</pre>");
}

#[test]
fn quotes_are_flat() {
    shows(
        "> a\n> b\n>\n> > c\n>\n> d\n\ne",
        "<blockquote>a\nb\n\nc\n\nd</blockquote>\n\ne",
    );
    shows(
        "> a\n\n> b",
        "<blockquote>a</blockquote>\n\n<blockquote>b</blockquote>",
    );
    shows("- a\n  > - b", "• a\n<blockquote>• b</blockquote>");
    shows("- > a", "•\n\n<blockquote>a</blockquote>");
    shows(
        "> ```\n> x\n> ```\n> `y`",
        "<blockquote><pre>x</pre>\n\n<code>y</code></blockquote>",
    );
}

#[test]
fn code_has_no_other_tags() {
    shows("**a `b` c**", "<b>a </b><code>b</code><b> c</b>");
    shows("# `a`", "<code>a</code>");
    shows("# a `b` `c`", "<b>a </b><code>b</code> <code>c</code>");
    shows("[`a`](https://b)", "<a href=\"https://b\">a</a>");
    shows(
        "```rust,ignore\n*a* <b>\n\n\n```\n~~~\n\nc\n~~~",
        "<pre><code class=\"language-rust\">*a* &lt;b&gt;</code></pre>\n\n<pre>c</pre>",
    );
    shows(
        "```c++ x\na\n```",
        "<pre><code class=\"language-c++\">a</code></pre>",
    );
    shows("```{.a\"}\na\n```", "<pre>a</pre>");
    shows("    a\n      b", "<pre>a\n  b</pre>");
}

#[test]
fn links_open_or_show_where_they_lead() {
    shows(
        "[a *b*](https://c?d=\"&e) [f](TG://x)",
        "<a href=\"https://c?d=&quot;&amp;e\">a <i>b</i></a> f (TG://x)",
    );
    shows(
        "[a](b/c.md#d) [e](javascript:f)",
        "a (b/c.md#d) e (javascript:f)",
    );
    shows("[a.md](a.md) [b]() [](c)", "a.md b c");
    shows(
        "<https://a> <b@c.d>",
        "<a href=\"https://a\">https://a</a> b@c.d",
    );
    shows(
        "[a](https://b)[c](d)[e](https://f)",
        "<a href=\"https://b\">a</a>c (d)<a href=\"https://f\">e</a>",
    );
    shows("[m](mailto:a@b)", "<a href=\"mailto:a@b\">m</a>");
    shows(
        "![a](https://b) ![](https://c) ![d](e.png)",
        "<a href=\"https://b\">a</a> <a href=\"https://c\">https://c</a> d (e.png)",
    );
    shows(
        "[![a](https://b)](https://c)",
        "<a href=\"https://c\">a</a>",
    );
    shows(
        "[a] [B]\n\n[a]: https://c\n[d]: https://e\n",
        "<a href=\"https://c\">a</a> [B]\n\n[d]: https://e",
    );
}

#[test]
fn tables_are_aligned() {
    shows(
        "| a | **字** | `c` |\n|---|--:|:-:|\n| long | 1 | x |\n| [b](https://d) | | <y |",
        "<pre>a             │ 字 │ c\n──────────────┼────┼───\nlong          │  1 │ x\nb (https://d) │    │ &lt;y</pre>",
    );
    shows("|a|\n|-|", "<pre>a\n─</pre>");
    let rows = "|a|b|\n".repeat(20);
    let wide = format!("{rows}|{}|b|", "x".repeat(200));
    let table = format!("|a|b|\n|-|-|\n{wide}");
    shows(&table, &format!("<pre>{table}</pre>"));
}

#[test]
fn unfinished_text_is_fine() {
    shows("a **b", "a **b");
    shows("a `b", "a `b");
    shows(
        "a\n\n```rs\nlet",
        "a\n\n<pre><code class=\"language-rs\">let</code></pre>",
    );
    shows("[a](htt", "[a](htt");
    shows("| a | b |\n|--", "| a | b |\n|--");
    shows("a\n-", "<b>a</b>");
}

#[test]
fn something_is_always_seen() {
    shows("```rs\n", "```rs");
    shows("```\n \n```", "```\n \n```");
    shows("[a]: https://b", "[a]: https://b");
    shows("` ` a ** **", " a ** **");
    shows(" \n", "");
    shows("", "");
}

#[test]
fn what_grows_without_end_is_shown_as_it_is() {
    let numbers = format!("999999999. a\n{}", "1.\n".repeat(99));
    shows(&numbers, numbers.trim());
    let lazy = format!("{}a\n{}", "- ".repeat(20), "b\n".repeat(99));
    shows(&lazy, lazy.trim());
    let links = format!("{}\n\n[a]: {}", "[a] ".repeat(99), "x".repeat(99));
    shows(&links, &links);
}

#[test]
fn deep_nesting_does_no_harm() {
    for part in [
        "- ", "> ", "**", "[", "![", "`", "<", "1. ", "| ", "*a ", "[a](", "\n|-|", "- > ",
    ] {
        let text = part.repeat(5000);
        check(&html(&text));
        check(&html(&format!("{text}a")));
    }
}

/// The visible text of the HTML.
fn shown(html: &str) -> String {
    let mut parts = html.split('<');
    let first = parts.next().unwrap_or_default().to_owned();
    let text = parts.fold(first, |all, part| all + part.split_once('>').unwrap().1);
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&quot;", "\"").replace("&amp;", "&")
}

/// As strict as Telegram's documentation: panics on anything that Telegram may refuse.
fn check(html: &str) {
    let mut open: Vec<(&str, usize)> = Vec::new();
    let mut rest = html;
    while let Some((text, tagged)) = rest.split_once('<') {
        check_text(text);
        let (tag, behind) = tagged.split_once('>').expect("a tag that ends");
        rest = behind;
        if let Some(name) = tag.strip_prefix('/') {
            let (opened, at) = open.pop().expect("an open tag");
            assert_eq!(opened, name);
            let inside = &html[at..html.len() - rest.len() - tag.len() - 2];
            assert!(!shown(inside).trim().is_empty(), "nothing in {name}");
            continue;
        }
        let name = tag.split(' ').next().unwrap_or_default();
        let names: Vec<&str> = open.iter().map(|(name, _)| *name).collect();
        let is_plain = tag == name;
        match name {
            "b" | "i" | "s" => assert!(is_plain && !names.contains(&name)),
            "blockquote" => assert!(is_plain && names.is_empty()),
            "pre" => assert!(is_plain && names.iter().all(|n| *n == "blockquote")),
            "code" if names.last() == Some(&"pre") => {
                let class = tag.strip_prefix("code class=\"language-").unwrap();
                check_attribute(class);
                assert!(html[..html.len() - tagged.len() - 1].ends_with("<pre>"));
            }
            "code" => assert!(is_plain && names.iter().all(|n| *n == "blockquote")),
            "a" => {
                check_attribute(tag.strip_prefix("a href=\"").unwrap());
                assert!(!names.contains(&"a"));
            }
            _ => panic!("unknown: {tag}"),
        }
        assert!(name == "code" || !names.contains(&"pre"));
        assert!(!names.contains(&"code"));
        open.push((name, html.len() - rest.len()));
    }
    check_text(rest);
    assert!(open.is_empty(), "left open: {open:?}");
    let text = shown(html);
    assert_eq!(text.trim_end(), text);
    let blank_start = text.len() - text.trim_start().len();
    assert!(!text[..blank_start].contains('\n'));
}

fn check_attribute(value_and_quote: &str) {
    let value = value_and_quote.strip_suffix('"').expect("a quoted value");
    assert!(!value.is_empty());
    check_text(value);
}

fn check_text(text: &str) {
    assert!(!text.contains(['>', '"']), "{text:?}");
    for entity in text.split('&').skip(1) {
        let name = entity.split_once(';').expect("an entity that ends").0;
        assert!(["lt", "gt", "amp", "quot"].contains(&name), "{name:?}");
    }
}

proptest! {
    #[test]
    fn telegram_can_read_it(text in prop_oneof![markdownish(), any::<String>()]) {
        check(&html(&text));
    }

    #[test]
    fn visible_text_is_the_html_without_tags(text in prop_oneof![markdownish(), any::<String>()]) {
        prop_assert_eq!(shown(&html(&text)), visible_text(&parse(&text)));
    }

    #[test]
    fn it_grows_only_so_much(text in prop_oneof![markdownish(), any::<String>()]) {
        let shown = shown(&html(&text)).encode_utf16().count();
        prop_assert!(shown <= 2 * text.encode_utf16().count() + 64);
    }

    #[test]
    fn something_is_seen_of_every_text(text in prop_oneof![markdownish(), any::<String>()]) {
        prop_assert_eq!(html(&text).is_empty(), text.trim().is_empty());
    }

    #[test]
    fn words_come_out_whole(text in "([a-z0-9 .,;*_#>é字-]|\n){0,200}") {
        let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).collect::<String>();
        prop_assert_eq!(letters(&shown(&html(&text))), letters(&text));
    }
}
