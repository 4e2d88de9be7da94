//! Tests each rule of the renderer by example, and the properties that hold for all texts.

use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::*;

fn shown_at(width: usize, colour: bool, text: &str) -> String {
    let mut markdown = Markdown::new(width, colour);
    markdown.push(text) + &markdown.finish()
}

fn plain(text: &str) -> String {
    shown_at(20, false, text)
}

/// Shows the escape character as `^`.
fn coloured(text: &str) -> String {
    shown_at(20, true, text).replace('\u{1b}', "^")
}

#[test]
fn words_are_shown_as_soon_as_they_end() {
    let mut markdown = Markdown::new(20, false);
    let pieces = [
        "Hel",
        "lo wor",
        "ld, **bo",
        "ld*",
        "* and more",
        " words\nx",
    ];
    let shown: Vec<String> = pieces.iter().map(|p| markdown.push(p)).collect();
    assert_eq!(
        shown,
        ["", "Hello", " world,", "", " bold\nand", " more words\n"]
    );
    assert_eq!(markdown.finish(), "x\n");
    assert_eq!(markdown.finish(), "");
}

#[test]
fn blocks_are_shown_with_their_own_marks() {
    assert_eq!(plain("## A title\n#no title"), "A title\n#no title\n");
    assert_eq!(plain("####### seven\n#"), "####### seven\n#\n");
    assert_eq!(
        plain("- one two three four five\n  * nested\n+ plus"),
        "• one two three four\n  five\n  • nested\n• plus\n"
    );
    assert_eq!(
        plain("10. one two three four\n2) b\n1.5 c"),
        "10. one two three\n    four\n2) b\n1.5 c\n"
    );
    assert_eq!(
        plain("> quoted text that wraps\n>\n> - item\n>> deep"),
        "│ quoted text that\n│ wraps\n│ \n│ • item\n│ │ deep\n"
    );
    let rule = format!("{}\n", "─".repeat(20));
    assert_eq!(plain("---\n***  \n___"), rule.repeat(3));
    assert_eq!(shown_at(99, false, "---").chars().count(), 41);
    assert_eq!(plain("--- no\n--"), "--- no\n--\n");
    assert_eq!(plain("a\n\n \n\nb\r\nc\n"), "a\n\nb\nc\n");
    let table = "| *a* | a rather wide cell |\n|---|---|\n";
    assert_eq!(plain(table), table);
}

#[test]
fn code_is_never_touched() {
    let code =
        "```rust\nlet a_b = **c; // a comment that is rather long\n\n\n\t`` > # x\n````\nafter";
    assert_eq!(
        plain(code),
        "```rust\n  let a_b = **c; // a comment that is rather long\n\n\n      `` > # x\n````\nafter\n"
    );
    assert_eq!(
        plain("~~~\n```\n~~\n~~~ x\n~~~\n*a*"),
        "~~~\n  ```\n  ~~\n  ~~~ x\n~~~\na\n"
    );
    assert_eq!(
        plain("> ```\n> > *a*\n> ```\n> *b*"),
        "│ ```\n│   > *a*\n│ ```\n│ b\n"
    );
    assert_eq!(plain("> ```\n> *a*\n*b*"), "│ ```\n│   *a*\nb\n");
    assert_eq!(plain("```a``` *b*"), "```a``` b\n");
    assert_eq!(
        plain("1. ```sh\n   *a*\n   ```\n- `*b*` *c*"),
        "1. ```sh\n     *a*\n   ```\n• `*b*` c\n"
    );
    assert_eq!(
        coloured("```rust\nx *y*\n"),
        "^[2m── rust ────────────^[0m\n  ^[36mx *y*^[0m\n"
    );
    let mut markdown = Markdown::new(20, false);
    let pieces = ["```\nlet x", " = 1;", "\n``", "`\n"].map(|p| markdown.push(p));
    assert_eq!(pieces, ["```\n  let x", " = 1;", "\n", "```\n"]);
}

#[test]
fn marks_become_styles() {
    assert_eq!(
        coloured("**b** _i_ `c*` ~~s~~"),
        "^[1mb^[0m ^[3mi^[0m ^[36mc*^[0m ^[9ms^[0m\n"
    );
    assert_eq!(coloured("***x***"), "^[1m^[3mx^[0m\n");
    assert_eq!(coloured("# a *b*"), "^[1ma ^[0m^[1m^[3mb^[0m\n");
    assert_eq!(coloured("> q"), "^[2m│ q^[0m\n");
    assert_eq!(
        plain("**b** __b__ *i* ~~s~~\n`c **d**`"),
        "b b i s\n`c **d**`\n"
    );
    assert_eq!(plain("**.env** (*a*), **b**: c"), ".env (a), b: c\n");
    assert_eq!(plain("这是**粗体**文字"), "这是粗体文字\n");
}

#[test]
fn what_is_no_mark_stays() {
    for text in [
        "snake_case_name",
        "2 * 3 * 4",
        "2*3*4 2**3",
        "*.rs **/*.toml",
        "(*) SELECT *, a",
        "f(*, a) ~5",
        "http://a.b/_c_/d",
        "a ** b __ c",
        "arr[i][j] (x)",
        "- [ ",
        "[a](b c) [d",
        "[x]() C:\\dir\\",
    ] {
        let expected = text.replacen("- ", "• ", 1).trim_end().to_owned() + "\n";
        assert_eq!(plain(text), expected);
    }
    assert_eq!(plain(r"\*a\* \[b](c) \# \x"), "*a* [b](c) # \\x\n");
}

#[test]
fn a_mark_ends_with_its_line_and_is_closed_around_a_wrap() {
    assert_eq!(
        coloured("**open\n`code\nplain"),
        "^[1mopen^[0m\n^[36mcode^[0m\nplain\n"
    );
    assert_eq!(
        coloured("- **one two three four five**"),
        "• ^[1mone two three four^[0m\n  ^[1mfive^[0m\n"
    );
}

#[test]
fn links_show_where_they_lead() {
    assert_eq!(plain("[a *b*](http://c) d"), "a b (http://c) d\n");
    assert_eq!(plain("[http://_c_](http://_c_)."), "http://_c_.\n");
    assert_eq!(
        plain("[w](x.org/a_(b) \"title\")[[y]](z)"),
        "w (x.org/a_(b))[y]\n(z)\n"
    );
    assert_eq!(plain("- [x] done [a](b)"), "• [x] done a (b)\n");
    let mut markdown = Markdown::new(20, false);
    assert_eq!(markdown.push("see [a b c d"), "see");
    assert!(markdown.push(&" ab".repeat(HELD)).len() > 2 * HELD);
}

#[test]
fn long_and_wide_words_are_broken_by_columns() {
    let rows = |text: &str| plain(text).lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        rows(&format!("ab {}", "x".repeat(45))),
        ["ab", &"x".repeat(20), &"x".repeat(20), "xxxxx"]
    );
    assert_eq!(
        rows(&format!("abc {}。", "字".repeat(18))),
        ["abc 字字字字字字字字", "字字字字字字字字字", "字。"]
    );
    let accents = "e\u{301}".repeat(20);
    assert_eq!(rows(&accents), [accents]);
    assert_eq!(rows(&"❤\u{fe0f}".repeat(11)).len(), 2);
}

#[test]
fn nothing_steers_the_terminal() {
    assert_eq!(
        plain("a\u{1b}[31mb\u{7}\u{9b}2J\r\u{7f}\tc"),
        "a[31mb2J    c\n"
    );
    assert_eq!(plain("a\u{202e}b\u{2066}c"), "abc\n");
    assert_eq!(plain("```\u{1b}]0;x\u{7}\n\u{1b}c"), "```]0;x\n  c\n");
}

#[test]
fn a_new_width_holds_for_what_follows() {
    let mut markdown = Markdown::new(40, false);
    let before = markdown.push("- one two three four five abcdefghijklmnopqrstuvw");
    markdown.resize(5);
    assert_eq!(
        before + &markdown.finish(),
        "• one two three four five\n  abcdefghijklmnopqr\n  stuvw\n"
    );
    let mut wide = Markdown::new(99, true);
    wide.push(&format!("{}- ", " ".repeat(60)));
    wide.resize(20);
    assert_eq!(wide.push("```\n"), " \n");
    assert_eq!(
        markdown.push(&"x".repeat(21)),
        format!("{}\n", "x".repeat(20))
    );
}

#[test]
fn what_is_held_back_has_a_limit() {
    for text in ["[", "-", "`", "\u{301}", "| ", "* ", ">", "[[]("] {
        let mut markdown = Markdown::new(20, true);
        markdown.push(&text.repeat(20 * HELD));
        assert!(markdown.head.text.len() <= HELD && markdown.rows.word.len() <= HELD);
    }
}

/// Text with marks of every kind, whole and broken.
fn markdownish() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-z]{1,9}",
        4 => Just(" ".to_owned()),
        2 => Just("\n".to_owned()),
        3 => "[-*_~`#>|+\\[\\]()\\\\.1é字🎉\u{301}\u{fe0f}\t\r\u{1b}]{1,4}",
        1 => prop::sample::select(vec![
            "\n```rs\n", "\n~~~\n", "\n> ", "\n- ", "\n  1. ", "\n- ```\n", "\n---\n", "\n| a |", "[a](b)", "**", "`",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

fn without_styles(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        let (sequence, rest) = part.split_once('m').unwrap();
        assert!(["[0", "[1", "[2", "[3", "[9", "[36"].contains(&sequence));
        all + rest
    })
}

proptest! {
    #[test]
    fn it_does_not_matter_where_the_text_is_cut(
        text in markdownish(), colour: bool, width in 0usize..60,
        cuts in prop::collection::vec(1usize..12, 1..20),
    ) {
        let mut markdown = Markdown::new(width, colour);
        let mut cut = String::new();
        let mut rest: Vec<char> = text.chars().collect();
        for length in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let piece: String = rest.drain(..(*length).min(rest.len())).collect();
            cut += &markdown.push(&piece);
        }
        prop_assert_eq!(cut + &markdown.finish(), shown_at(width, colour, &text));
    }

    #[test]
    fn no_row_is_too_wide_and_every_style_is_closed(
        text in prop_oneof![markdownish(), any::<String>()], colour: bool, width in 20usize..60,
    ) {
        // Code blocks and tables are not wrapped.
        let text = text.replace(['|', '`', '~'], "");
        let shown = shown_at(width, colour, &text);
        prop_assert!(shown.is_empty() || shown.ends_with('\n'));
        for row in shown.lines() {
            prop_assert!(without_styles(row).width() <= width, "{:?}", row);
            let last = row.rfind('\u{1b}').map(|at| &row[at..]);
            let is_closed = last.is_none_or(|s| s.starts_with("\u{1b}[0m"));
            prop_assert!(is_closed, "{:?}", row);
        }
    }

    #[test]
    fn arbitrary_text_brings_no_control_characters(
        text in prop_oneof![markdownish(), any::<String>(), "[\\x00-\\x7f\u{80}-\u{9f}]*"],
    ) {
        let is_safe = |shown: &str| shown.chars().all(|c| c == '\n' || !c.is_control());
        prop_assert!(is_safe(&shown_at(20, false, &text)));
        prop_assert!(is_safe(&without_styles(&shown_at(20, true, &text))));
    }

    #[test]
    fn plain_text_comes_out_whole(text in "[a-zA-Z0-9äé字 .,;:!?\n*_~#>-]{0,200}", colour: bool) {
        let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        let shown = without_styles(&shown_at(20, colour, &text));
        prop_assert_eq!(letters(&shown), letters(&text));
    }
}
