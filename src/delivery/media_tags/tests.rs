use proptest::prelude::*;

use crate::delivery::media_tags::*;

fn found(reply: &str) -> (String, Vec<String>) {
    let (rest, paths) = produced(reply);
    let paths = paths.iter().map(|path| path.display().to_string());
    (rest, paths.collect())
}

/// Asserts that the reply has this text and these files.
fn is(reply: &str, rest: &str, paths: &[&str]) {
    let expected = (
        rest.to_owned(),
        paths.iter().map(|p| (*p).to_owned()).collect(),
    );
    assert_eq!(found(reply), expected, "{reply}");
}

/// Asserts that the reply names no file.
fn is_left_alone(reply: &str) {
    is(reply, reply, &[]);
}

#[test]
fn a_tag_anywhere_in_a_line_is_a_file_and_no_words() {
    is("MEDIA:/tmp/a.png", "", &["/tmp/a.png"]);
    is("Here: MEDIA:/tmp/a.png.", "Here:.", &["/tmp/a.png"]);
    is("Look MEDIA: ~/a.png here", "Look here", &["~/a.png"]);
    is("Done.MEDIA:/tmp/Makefile", "Done.", &["/tmp/Makefile"]);
    is("看MEDIA:/tmp/图.png，好", "看，好", &["/tmp/图.png"]);
    is(
        "MEDIA:/a/b.tar.gz, MEDIA:/a/c.d/e",
        "",
        &["/a/b.tar.gz", "/a/c.d/e"],
    );
    is("MEDIA:/a.pngMEDIA:/b.xyz", "", &["/a.png", "/b.xyz"]);
    // The end of one does not open the next.
    is(
        "*MEDIA:/a.png*MEDIA:/b.png* x",
        "* x",
        &["/a.png", "/b.png"],
    );
    is("MEDIA:'/a'MEDIA:/b'", "'", &["/a", "/b"]);
    is(
        "(MEDIA:/a.png)MEDIA:/b.png) x",
        ") x",
        &["/a.png", "/b.png"],
    );
}

#[test]
fn each_file_comes_once_in_the_order_of_its_first_mention() {
    is(
        "MEDIA:/b.png\nand MEDIA:/a.png\nMEDIA:/b.png MEDIA://b.png",
        "and",
        &["/b.png", "/a.png"],
    );
}

#[test]
fn quotes_belong_to_the_tag() {
    for tag in [
        "MEDIA:\"/tmp/a b\"",
        "MEDIA: '/tmp/a b'",
        "MEDIA:`/tmp/a b`",
        "\"MEDIA:/tmp/a b\"",
        "'MEDIA:/tmp/a b'",
        "**MEDIA:'/tmp/a b'**",
        "[(MEDIA:'/tmp/a b')]",
    ] {
        is(&format!("See {tag} now"), "See now", &["/tmp/a b"]);
    }
    for tag in [
        "`MEDIA:/tmp/a.png`",
        "``MEDIA:'/tmp/a.png'``",
        "` MEDIA: /tmp/a.png `",
    ] {
        is(&format!("See {tag}."), "See.", &["/tmp/a.png"]);
    }
}

#[test]
fn a_path_with_blanks_ends_with_its_ending() {
    is(
        "MEDIA:/tmp/my report (1).pdf and so on",
        "and so on",
        &["/tmp/my report (1).pdf"],
    );
    is("`MEDIA:/tmp/my report.pdf`", "", &["/tmp/my report.pdf"]);
    is("MEDIA:/tmp/v1.2 notes.md", "", &["/tmp/v1.2 notes.md"]);
    is("MEDIA:/tmp/a.rs with b.pdf", "with b.pdf", &["/tmp/a.rs"]);
    is(
        "MEDIA:/tmp/chart of https://x.org/a.pdf",
        "of https://x.org/a.pdf",
        &["/tmp/chart"],
    );
    is(
        "MEDIA:/tmp/chart beside /tmp/a.pdf",
        "beside /tmp/a.pdf",
        &["/tmp/chart"],
    );
}

#[test]
fn the_rest_is_as_if_there_had_been_no_tags() {
    is("One.\n\nMEDIA:/a.png\n\nTwo.", "One.\n\nTwo.", &["/a.png"]);
    is(
        "One.\n\n- MEDIA:/a.png\n2. MEDIA:/b.png",
        "One.",
        &["/a.png", "/b.png"],
    );
    is(
        "MEDIA:/a.png\n\nOne.\n\n\n\nTwo.\n",
        "One.\n\n\n\nTwo.\n",
        &["/a.png"],
    );
    is(
        "  indented MEDIA:/a.png\nnext",
        "  indented\nnext",
        &["/a.png"],
    );
    is("[[audio_as_voice]]\nMEDIA:/a.ogg", "", &["/a.ogg"]);
    is("Hear! [[as_document]] MEDIA:/a.ogg", "Hear!", &["/a.ogg"]);
}

#[test]
fn code_quotations_and_data_are_left_alone() {
    is_left_alone("```\nMEDIA:/a.png\n```");
    is_left_alone("  ~~~~ sh\nMEDIA:/a.png\n~~~\nMEDIA:/b.png");
    is_left_alone("Write `send MEDIA:/a.png` or `MEDIA:/a.png now`.");
    is_left_alone("Write ``MEDIA:/a.png ` now``.");
    is_left_alone("> MEDIA:/a.png");
    is_left_alone("{\"result\": \"Done. MEDIA:/a.png\"}");
    is_left_alone("[\"MEDIA:/a.png\"]");
    is(
        "```sh\nMEDIA:/a.png\n```\nMEDIA:/b.png\n`x` MEDIA:/c.png ` MEDIA:/d.png",
        "```sh\nMEDIA:/a.png\n```\n`x` `",
        &["/b.png", "/c.png", "/d.png"],
    );
}

#[test]
fn what_is_no_tag_is_left_alone() {
    for reply in [
        "MEDIA:",
        "MEDIA:/",
        "MEDIA:~/",
        "MEDIA:/..",
        "MEDIA: a.png",
        "MEDIA:a.png",
        "MULTIMEDIA:/a.png",
        "media:/a.png",
        "MEDIA:\n/a.png",
        "MEDIA:\"/a\u{1}b.png\"",
        "MEDIA:'/a.png",
        "[[as_document]] MEDIA:a.png",
    ] {
        is_left_alone(reply);
    }
    is_left_alone(&format!("MEDIA:'/{}'", "x".repeat(LONGEST_PATH)));
}

#[test]
fn a_reply_that_is_made_to_take_long_does_not() {
    let ticks: String = (2..1500).map(|n| "`".repeat(n) + " ").collect();
    for odd in [
        ticks + &"`x` ".repeat(400_000),
        "\"MEDIA:x ".repeat(50_000),
        "MEDIA:/a ".repeat(100_000),
    ] {
        let begun = crate::testing::processor_time();
        produced(&format!("{odd}MEDIA:/a.png"));
        let took = crate::testing::processor_time() - begun;
        assert!(took < std::time::Duration::from_secs(20), "{took:?}");
    }
}

proptest! {
    #[test]
    fn words_without_the_tag_come_back_unchanged(reply in "(?s).*") {
        prop_assume!(!reply.contains(TAG));
        prop_assert_eq!(produced(&reply), (reply, Vec::new()));
    }

    /// For every reply: no panic, each path once, only valid paths, and no change to a reply without one.
    #[test]
    fn nothing_an_agent_says_breaks_it(pieces in prop::collection::vec(
        prop_oneof![
            Just("MEDIA:"), Just("/tmp/a.png"), Just("~/b c.pdf"), Just("`"), Just("```"), Just("\n"), Just(" "),
            Just("\""), Just("'"), Just("**"), Just("> "), Just("(") , Just(")"), Just("."), Just("ü図"), Just("[[as_document]]"),
            Just("\r\n"), Just("~~~"), Just("\u{0}"), Just("/"), Just("x"),
        ], 0..40,
    )) {
        let reply = pieces.concat();
        let (rest, paths) = produced(&reply);
        let unique: HashSet<_> = paths.iter().collect();
        prop_assert_eq!(unique.len(), paths.len());
        for path in &paths {
            let path = path.to_str().unwrap();
            prop_assert!(path.starts_with('/') || path.starts_with("~/"), "{}", path);
            prop_assert!(!path.contains(char::is_control), "{:?}", path);
        }
        prop_assert!(rest.len() <= reply.len());
        prop_assert!(!paths.is_empty() || rest == reply);
    }
}

#[test]
fn a_reply_that_is_being_written_shows_no_tag_and_no_beginning_of_one() {
    for (written, shown) in [
        ("Here it", "Here it"),
        ("M", ""),
        ("MEDIA:", ""),
        ("MEDIA:/tmp/a", ""),
        ("MEDIA:/tmp/a b.png and", ""),
        ("MEDIA:/tmp/a.png\n", ""),
        ("**MEDIA:/tmp/a.png**\n\n", ""),
        ("[[audio_as", ""),
        ("Here it is.\nMED", "Here it is."),
        ("Here it is.\nMEDIA:/tmp/a.png\nAnd", "Here it is.\nAnd"),
        ("I AM", "I AM"),
        ("```\nMEDIA:/tmp/a", "```\nMEDIA:/tmp/a"),
        ("> MEDIA:/tmp/a", "> MEDIA:/tmp/a"),
    ] {
        assert_eq!(unfinished(written), shown, "{written:?}");
    }
}
