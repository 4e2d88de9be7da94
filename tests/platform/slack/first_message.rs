//! The message that begins the thread of a handoff, by the adapter alone.

use std::collections::BTreeMap;

use hermesd::config::{self, Overrides};
use hermesd::domain::{ChatType, HomeChannel, Source, ThreadOutcome};
use hermesd::events::Bus;
use hermesd::platform::{self, AdapterContext, Grade, Platform};

use crate::support::slack::ADA;
use crate::support::slack_bot::SlackBot;

async fn adapter(bot: &SlackBot) -> std::sync::Arc<dyn Platform> {
    let overrides = Overrides {
        home: Some(bot.home.path().to_owned()),
        config: Some(bot.home.path().join(".config/hermesd/hermesd.toml")),
        ..Overrides::default()
    };
    let config = config::load_with(platform::schema(), &overrides, &BTreeMap::new());
    let config = config.expect("a configuration");
    let settings = config
        .platforms
        .iter()
        .find(|p| p.name == "slack")
        .expect("slack");
    let path = bot.home.path().to_owned();
    let context = AdapterContext::new("slack", path, bot.home.store(), Bus::default());
    let adapter = platform::build(settings, context)
        .expect("settings")
        .expect("an adapter");
    adapter.connect().await.expect("a connection");
    adapter
}

fn home(bot: &SlackBot) -> HomeChannel {
    HomeChannel {
        chat_id: bot.channel.clone(),
        name: None,
        thread_id: None,
        owner: Some(ADA.id.to_owned()),
    }
}

#[tokio::test]
async fn it_says_when_the_session_leaves_and_when_it_comes_back() {
    let bot = SlackBot::in_channel();
    let slack = adapter(&bot).await;
    let (home, title) = (home(&bot), "Hermes — <!channel> & *more*");
    let opened = slack.open_thread(&home, title, "handoff:1").await;
    let thread = slack.destination(&home, &opened.expect("a thread"));
    let text = || bot.api.bot_messages(&bot.channel)[0].read();
    let first = text();
    assert!(first.contains("Hermes — <!channel> & *more*"), "{first}");
    for _ in 0..2 {
        slack.thread_left(&thread).await.expect("an edit");
        assert!(text().contains("has left this thread"), "{}", text());
    }
    slack.thread_resumed(&thread).await.expect("an edit");
    assert_eq!(text(), first);
    assert_eq!(
        bot.api.bot_messages(&bot.channel)[0].notified,
        Vec::<String>::new()
    );
    // A thread that a person began stays as it is.
    let root = bot.api.says(&bot.channel, &ADA, "hello");
    let others = Source {
        thread_id: Some(root),
        ..Source::new("slack", ChatType::Group, &bot.channel)
    };
    slack.thread_left(&others).await.expect("nothing to do");
}

#[tokio::test]
async fn the_same_key_gives_the_same_thread_and_another_database_another() {
    let bot = SlackBot::in_channel();
    let id = |opened| match opened {
        ThreadOutcome::Thread { id, .. } => id,
        ThreadOutcome::Chat { reason, .. } => panic!("{reason}"),
    };
    let open = async |key: &str| {
        let slack = adapter(&bot).await;
        id(slack
            .open_thread(&home(&bot), "one", key)
            .await
            .expect("a thread"))
    };
    let first = open("handoff:1").await;
    assert_eq!(open("handoff:1").await, first);
    assert_ne!(open("handoff:2").await, first);
    let cursors = "DELETE FROM hermesd_cursors WHERE account = 'installation'";
    bot.home.sqlite().execute(cursors, []).expect("a row");
    assert_ne!(open("handoff:1").await, first);
}

#[tokio::test]
async fn a_check_names_what_is_missing() {
    let bot = SlackBot::in_channel();
    let slack = adapter(&bot).await;
    let worst = |found: &[platform::Finding]| found.iter().map(|f| f.grade).max();
    let told = |found: &[platform::Finding]| format!("{found:?}");
    let found = slack.diagnose(Some(&home(&bot))).await;
    assert_eq!(worst(&found), Some(Grade::Doubtful), "{found:?}");
    assert!(told(&found).contains("reactions:write"), "{found:?}");
    bot.api.gives_scope("reactions:write");
    let found = slack.diagnose(Some(&home(&bot))).await;
    assert_eq!(worst(&found), Some(Grade::Good), "{found:?}");
    bot.api.removes_bot(&bot.channel);
    bot.api.removes_scope("im:history");
    let found = slack.diagnose(Some(&home(&bot))).await;
    assert_eq!(worst(&found), Some(Grade::Bad), "{found:?}");
    assert!(
        told(&found).contains("/invite") && told(&found).contains("im:history"),
        "{found:?}"
    );
    bot.api.revokes_token();
    let found = slack.diagnose(Some(&home(&bot))).await;
    assert!(told(&found).contains("token_revoked"), "{found:?}");
}
