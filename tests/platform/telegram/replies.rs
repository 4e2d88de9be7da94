//! What becomes of an agent's answer on its way to Telegram: its format, its length, its files; and of what people send along.

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, ScriptedFault};
use crate::support::{Daemon, program, told};

/// A bot whose agent is this script, and Ada's chat with it.
fn agent(script: &str) -> (Bot, i64, Daemon) {
    let (bot, chat) = Bot::of_ada("");
    let (command, _) = program(&bot.home, "agent", script);
    let daemon = bot.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", &command),
    ]);
    (bot, chat, daemon)
}

/// One that says this.
fn says(reply: &str) -> (Bot, i64, Daemon) {
    let bot = agent("cat \"$0.reply\"");
    bot.0.home.write("agent.reply", reply);
    bot
}

#[test]
fn markdown_is_shown_as_telegram_can() {
    let (bot, chat, _daemon) =
        says("# Title\n\nSome **bold** & `a<b`:\n\n```rust\nlet x = 1 < 2;\n```\n\n- one\n- two");
    bot.api.says(chat, None, &ADA, "go on");
    let shown = bot
        .api
        .until_message(chat, None, |m| m.text.contains("Title"));
    assert_eq!(
        shown.source,
        "<b>Title</b>\n\nSome <b>bold</b> &amp; <code>a&lt;b</code>:\n\n\
         <pre><code class=\"language-rust\">let x = 1 &lt; 2;</code></pre>\n\n• one\n• two"
    );
}

#[test]
fn what_telegram_refuses_for_its_format_is_sent_as_it_is() {
    let (bot, chat, _daemon) = says("Some **bold** words");
    let refusal = "Bad Request: can't parse entities: Unsupported start tag";
    bot.api
        .then("sendMessage", ScriptedFault::Refuse(400, refusal));
    bot.api.says(chat, None, &ADA, "go on");
    let shown = bot
        .api
        .until_message(chat, None, |m| m.text.contains("bold"));
    assert_eq!(shown.text, "Some **bold** words");
    assert_eq!(bot.api.messages_in(chat, None).len(), 1);
}

#[test]
fn a_long_answer_comes_in_pieces_in_order_with_its_code_whole() {
    let paragraph = |n: usize| format!("Paragraph {n}. {}\n\n", "words and more ".repeat(60));
    let code: String = (0..300)
        .map(|n| format!("line {n} of the program\n"))
        .collect();
    let mut reply: String = (0..8).map(paragraph).collect();
    reply.push_str(&format!("```sh\n{code}```\n\nThe end."));
    let (bot, chat, _daemon) = says(&reply);
    bot.api.says(chat, None, &ADA, "tell me all");
    bot.api
        .until_message(chat, None, |m| m.text.ends_with("The end."));
    let pieces = bot.api.messages_in(chat, None);
    assert!(pieces.len() >= 4, "{}", pieces.len());
    let all: Vec<String> = pieces.iter().map(|m| m.text.clone()).collect();
    let all = all.join("\n");
    let places: Vec<usize> = (0..8)
        .map(|n| all.find(&format!("Paragraph {n}.")).expect("a paragraph"))
        .chain((0..300).map(|n| all.find(&format!("line {n} of")).expect("a line")))
        .collect();
    assert!(places.is_sorted());
    for piece in pieces.iter().filter(|m| m.text.contains("of the program")) {
        assert!(
            piece.source.contains("<pre><code class=\"language-sh\">"),
            "{}",
            piece.source
        );
        assert!(!piece.text.contains("```"), "{}", piece.text);
    }
}

#[test]
fn files_that_an_agent_names_are_sent_where_that_is_allowed() {
    let (bot, chat, _daemon) = says("");
    bot.home.write(
        &format!("files/telegram/chat{chat}/report.pdf"),
        "%PDF of a report",
    );
    let at = |name: &str| bot.home.path().join(name).display().to_string();
    let reply = format!(
        "Here it is.\nMEDIA:{}\nMEDIA:{}\n",
        at(&format!("files/telegram/chat{chat}/report.pdf")),
        at(".env")
    );
    bot.home.write("agent.reply", &reply);
    bot.api.says(chat, None, &ADA, "the report, please");
    let file = bot.api.until_message(chat, None, |m| m.file.is_some());
    let sent = file.file.expect("a file");
    assert!(
        sent.is("document", "report.pdf", b"%PDF of a report"),
        "{sent:?}"
    );
    let words = &bot.api.messages_in(chat, None)[0].text;
    assert!(words.starts_with("Here it is."), "{words}");
    assert!(!words.contains("MEDIA:"), "{words}");
    assert!(
        words.contains(".env") && !words.contains("TELEGRAM"),
        "{words}"
    );
}

#[test]
fn an_agent_is_handed_what_a_person_sends_along() {
    let (bot, chat, _daemon) = agent("cat >> \"$OUT\"; echo seen");
    bot.api
        .writes(chat, &ADA)
        .text("what is this?")
        .file("photo", "photo.jpg", b"\xff\xd8\xff a picture")
        .send();
    bot.api.until_message(chat, None, |m| m.text == "seen");
    let told = told(&bot.home.path().join("agent.out")).remove(0);
    let sent = &told["attachments"][0];
    assert_eq!(sent["kind"], "image", "{told}");
    let path = sent["path"].as_str().expect("a path");
    assert_eq!(
        std::fs::read(path).expect("a file"),
        b"\xff\xd8\xff a picture"
    );
    let words = told["message"].as_str().expect("words");
    assert!(
        words.starts_with("what is this?") && words.contains(path),
        "{words}"
    );
}
