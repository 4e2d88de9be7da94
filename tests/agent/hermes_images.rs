//! Pictures on their way to Hermes, with a backend of the tests' own: it takes some, refuses some, and misunderstands some.

use hermesd::agent::hermes::Hermes;
use hermesd::domain::transcript::{Content, Message, Role, Transcript};
use hermesd::domain::{Attachment, FileKind, in_words};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::agent::files::{IDLE, ask, runs, sent};
use crate::support::log::Log;
use crate::support::{Home, eventually, program, told};

const BACKEND: &str = r#"
answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,$1}"; }
event() { echo "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"type\":\"$1\",\"session_id\":\"live\",\"payload\":$2}}"; }
event gateway.ready null
while read -r line; do
  printf '%s\n' "$line" >> $OUT
  id=$(printf '%s\n' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  path=$(printf '%s\n' "$line" | sed 's/.*"path":"\([^"]*\)".*/\1/')
  case $line in
    *session.resume*) answer '"result":{"session_id":"live"}' ;;
    *image.attach*refused*) answer '"error":{"code":4016,"message":"unsupported image"}' ;;
    *image.attach*odd*) answer '"result":{"attached":true,"path":"/another"}' ;;
    *image.attach*silent*) ;;
    *image.attach*) answer "\"result\":{\"attached\":true,\"path\":\"$path\"}" ;;
    *prompt.submit*)
      answer '"result":{"status":"streaming"}'
      event message.complete '{"text":"I see.","status":"complete"}' ;;
    *) answer '"result":{}' ;;
  esac
done
"#;

struct House {
    home: Home,
    hermes: Hermes,
    got: std::path::PathBuf,
}

impl House {
    fn new() -> House {
        let home = Home::new();
        let (python, got) = program(&home, "python", BACKEND);
        let hermes = Hermes::new(runs(&python, "hermes", &[]), IDLE);
        House { home, hermes, got }
    }

    fn image(&self, name: &str) -> Attachment {
        sent(&self.home, FileKind::Image, name, None, b"GIF89a")
    }

    async fn say(&self, attachments: &[Attachment], cancel: &CancellationToken) -> bool {
        let before = Transcript {
            messages: vec![said("I see.")],
            orphans: 0,
        };
        let reply = ask(&self.home, &self.hermes, &before, attachments, cancel).await;
        reply.is_ok_and(|reply| reply.text == "I see.")
    }

    /// What the backend was asked for since the last time.
    fn asked(&self) -> Vec<(String, Value)> {
        let asked = told(&self.got);
        std::fs::write(&self.got, "").unwrap();
        let of = |mut line: Value| {
            (
                line["method"].as_str().unwrap().to_owned(),
                line["params"].take(),
            )
        };
        asked.into_iter().map(of).collect()
    }

    fn methods(&self) -> Vec<String> {
        self.asked().into_iter().map(|(method, _)| method).collect()
    }
}

fn said(text: &str) -> Message {
    Message {
        id: 1,
        role: Role::Assistant,
        content: Some(Content::Text(text.into())),
        api_content: None,
        tool_call_id: None,
        tool_name: None,
        tool_calls: Vec::new(),
        finish_reason: None,
        reasoning: None,
        reasoning_content: None,
        reasoning_details: None,
        timestamp: 0.0,
        display_kind: None,
        model_only: false,
    }
}

#[tokio::test]
async fn pictures_come_before_their_words_and_the_session_stays_open() {
    let (house, go_on) = (House::new(), CancellationToken::new());
    let mut files = vec![
        house.image("one.gif"),
        sent(
            &house.home,
            FileKind::File,
            "r.pdf",
            Some("application/pdf"),
            b"%PDF",
        ),
        sent(
            &house.home,
            FileKind::File,
            "two.gif",
            Some("image/gif"),
            b"GIF89a",
        ),
        house.image("gone.gif"),
    ];
    std::fs::remove_file(&files[3].path).unwrap();
    assert!(house.say(&files, &go_on).await);
    let asked = house.asked();
    let methods: Vec<&str> = asked.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(
        methods,
        [
            "session.resume",
            "image.attach",
            "image.attach",
            "prompt.submit"
        ]
    );
    let path = |file: &Attachment| Value::from(file.path.canonicalize().unwrap().to_str().unwrap());
    assert_eq!(asked[1].1["path"], path(&files[0]));
    assert_eq!(asked[2].1["path"], path(&files[2]));
    assert_eq!(asked[3].1["text"], in_words("Look!", &files));

    files.clear();
    assert!(house.say(&files, &go_on).await);
    assert_eq!(house.methods(), ["prompt.submit"]);
}

#[tokio::test]
async fn what_hermes_does_not_take_stays_words_and_is_not_left_to_the_next_turn() {
    let (go_on, log) = (CancellationToken::new(), Log::start());
    for (name, meanwhile) in [
        ("refused.gif", &["image.attach", "prompt.submit"][..]),
        (
            "odd.gif",
            &["image.attach", "image.detach", "prompt.submit"],
        ),
    ] {
        let house = House::new();
        assert!(house.say(&[house.image(name)], &go_on).await, "{name}");
        assert_eq!(house.methods()[1..], *meanwhile, "{name}");
        assert!(house.say(&[], &go_on).await);
        assert_eq!(
            house.methods(),
            ["session.close", "session.resume", "prompt.submit"],
            "{name}"
        );
    }
    log.says("refused a picture", 2).await;
}

#[tokio::test]
async fn a_turn_that_is_stopped_before_its_words_leaves_no_picture_behind() {
    let (house, stop) = (House::new(), CancellationToken::new());
    assert!(house.say(&[], &stop).await);
    assert_eq!(house.methods(), ["session.resume", "prompt.submit"]);
    let files = [house.image("one.gif"), house.image("silent.gif")];
    let stopping = async {
        eventually("the second picture is on its way", || async {
            let asked = std::fs::read_to_string(&house.got).unwrap_or_default();
            asked.contains("silent.gif").then_some(())
        })
        .await;
        stop.cancel();
    };
    let (answered, ()) = tokio::join!(house.say(&files, &stop), stopping);
    assert!(!answered);
    assert!(!house.methods().contains(&"prompt.submit".to_owned()));
    assert!(house.say(&[], &CancellationToken::new()).await);
    assert_eq!(
        house.methods(),
        ["session.close", "session.resume", "prompt.submit"]
    );
}
