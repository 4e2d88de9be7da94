//! The fake Telegram, read with the types of a client library.

use std::time::Duration;

use serde_json::json;
use teloxide_core::net::Download;
use teloxide_core::payloads::{
    AnswerCallbackQuerySetters, EditMessageReplyMarkupSetters, EditMessageTextSetters,
    GetUpdatesSetters, SendDocumentSetters, SendMessageSetters, SetMessageReactionSetters,
};
use teloxide_core::prelude::Requester;
use teloxide_core::types::{
    AllowedUpdate, BotCommand, ChatAction, ChatId, InlineKeyboardButton, InlineKeyboardMarkup,
    InputFile, ParseMode, ReactionType, ReplyParameters, Update, UpdateKind, UserId,
};
use teloxide_core::{ApiError, Bot, RequestError};

use crate::platform::telegram::fake::{bot, done};
use crate::support::telegram::{ADA, BEN, BOT_ID, BOT_NAME, BotApi};

async fn updates(bot: &Bot, after: u32) -> Vec<Update> {
    let updates = bot.get_updates().offset(after as i32 + 1).timeout(5).await;
    updates.unwrap()
}

/// What the next poll brings, as the vendor's own types.
pub async fn next(bot: &Bot) -> Update {
    let mut updates = updates(bot, 0).await;
    assert_eq!(updates.len(), 1, "{updates:?}");
    let update = updates.remove(0);
    let rest = bot.get_updates().offset(update.id.as_offset()).await;
    assert_eq!(rest.unwrap(), [], "confirmed");
    update
}

pub fn message(update: Update) -> teloxide_core::types::Message {
    match update.kind {
        UpdateKind::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_vendors_library_can_talk_to_it() {
    let api = BotApi::start();
    let bot = bot(&api);
    let me = bot.get_me().await.unwrap();
    assert_eq!(
        (me.username(), me.user.id),
        (BOT_NAME, UserId(BOT_ID as u64))
    );
    assert_eq!(bot.get_webhook_info().await.unwrap().url, None);
    let commands = [BotCommand::new("new", "A new session")];
    bot.set_my_commands(commands).await.unwrap();
    assert_eq!(api.menu(), [("new".to_owned(), "A new session".to_owned())]);
    assert_eq!(api.menu_for("all_group_chats", "de"), []);

    let ada = api.private(&ADA);
    let id = api.says(ada, None, &ADA, "/start@hermes_test_bot hello @ada_l");
    let said = message(next(&bot).await);
    assert_eq!((said.chat.id.0, said.id.0), (ada, id as i32));
    assert_eq!(said.from.as_ref().unwrap().first_name, ADA.name);
    let found: Vec<String> = said
        .parse_entities()
        .unwrap()
        .iter()
        .map(|e| e.text().to_owned())
        .collect();
    assert_eq!(found, ["/start@hermes_test_bot", "@ada_l"]);

    let keyboard = InlineKeyboardMarkup::new([[
        InlineKeyboardButton::callback("Yes", "y:1"),
        InlineKeyboardButton::callback("No", "n:1"),
    ]]);
    let sent = bot
        .send_message(ChatId(ada), "<b>Really</b>?")
        .parse_mode(ParseMode::Html)
        .reply_parameters(ReplyParameters::new(said.id))
        .disable_notification(true)
        .reply_markup(keyboard.clone())
        .await
        .unwrap();
    assert_eq!(sent.text(), Some("Really?"));
    assert_eq!(sent.reply_to_message().unwrap().id, said.id);
    let stands = api.messages_in(ada, None).remove(0);
    assert_eq!(
        (stands.reply_to, stands.silent, stands.edits),
        (Some(id), true, 0)
    );
    assert_eq!(stands.buttons[0][1], ("No".to_owned(), "n:1".to_owned()));

    let query = api.presses(ada, stands.id, &ADA, "No");
    let UpdateKind::CallbackQuery(pressed) = next(&bot).await.kind else {
        panic!("no query");
    };
    assert_eq!(
        (pressed.id.0.as_str(), pressed.data.as_deref()),
        (query.as_str(), Some("n:1"))
    );
    assert_eq!(pressed.regular_message().unwrap().id, sent.id);
    bot.answer_callback_query(pressed.id.clone())
        .text("Well")
        .show_alert(true)
        .await
        .unwrap();
    assert_eq!(api.queries()[0].answer, Some(("Well".to_owned(), true)));
    let again = bot.answer_callback_query(pressed.id).await.unwrap_err();
    assert!(again.to_string().contains("query is too old"), "{again}");

    let edit = || bot.edit_message_text(ChatId(ada), sent.id, "No");
    let edited = edit()
        .reply_markup(InlineKeyboardMarkup::default())
        .await
        .unwrap();
    assert!(edited.edit_date().is_some());
    let stands = api.messages_in(ada, None).remove(0);
    assert_eq!(
        (stands.text.as_str(), stands.edits, stands.buttons.len()),
        ("No", 1, 0)
    );
    let same = edit().await.unwrap_err();
    assert!(
        matches!(same, RequestError::Api(ApiError::MessageNotModified)),
        "{same}"
    );
    bot.edit_message_reply_markup(ChatId(ada), sent.id)
        .reply_markup(keyboard)
        .await
        .unwrap();

    bot.send_chat_action(ChatId(ada), ChatAction::Typing)
        .await
        .unwrap();
    assert_eq!(api.actions(ada), [(None, "typing".to_owned())]);
    let eyes = |emoji: &str| {
        vec![ReactionType::Emoji {
            emoji: emoji.to_owned(),
        }]
    };
    bot.set_message_reaction(ChatId(ada), said.id)
        .reaction(eyes("👀"))
        .await
        .unwrap();
    assert_eq!(api.reactions(ada, id), ["👀"]);
    let clocks = bot
        .set_message_reaction(ChatId(ada), said.id)
        .reaction(eyes("⏰"))
        .await;
    assert!(clocks.unwrap_err().to_string().contains("REACTION_INVALID"));
    bot.delete_message(ChatId(ada), sent.id).await.unwrap();
    assert_eq!(api.messages_in(ada, None).len(), 0);

    let chat = bot.get_chat(ChatId(ada)).await.unwrap();
    assert_eq!(
        (chat.is_private(), chat.first_name()),
        (true, Some(ADA.name))
    );
    let member = bot
        .get_chat_member(ChatId(ada), UserId(ADA.id as u64))
        .await
        .unwrap();
    assert!(member.is_member());
}

#[tokio::test]
async fn files_go_both_ways() {
    let api = BotApi::start();
    let bot = bot(&api);
    let ada = api.private(&ADA);
    let picture = b"\xff\xd8\xff and a picture".repeat(100);
    api.writes(ada, &ADA)
        .file("photo", "p.jpg", &picture)
        .text("Look /here")
        .send();
    let said = message(next(&bot).await);
    assert_eq!(said.caption(), Some("Look /here"));
    let largest = said.photo().unwrap().last().unwrap();
    let file = bot.get_file(largest.file.id.clone()).await.unwrap();
    assert_eq!(file.size as usize, picture.len());
    let mut fetched = Vec::new();
    bot.download_file(&file.path, &mut fetched).await.unwrap();
    assert_eq!(fetched, picture);
    let nothing = bot.download_file("photos/none.jpg", &mut fetched).await;
    assert!(nothing.is_err());

    api.writes(ada, &ADA).file("voice", "v.ogg", b"OggS").send();
    assert_eq!(message(next(&bot).await).voice().unwrap().file.size, 4);
    api.writes(ada, &ADA)
        .file("document", "big.bin", b"big")
        .sized(21 << 20)
        .send();
    let big = message(next(&bot).await)
        .document()
        .unwrap()
        .file
        .id
        .clone();
    let refused = bot.get_file(big).await.unwrap_err();
    assert!(refused.to_string().contains("file is too big"), "{refused}");

    let album = api.album(ada, None, &ADA, "Two", &[&picture, &picture]);
    let parts: Vec<_> = updates(&bot, 0).await.into_iter().map(message).collect();
    assert_eq!(
        parts.iter().map(|m| i64::from(m.id.0)).collect::<Vec<_>>(),
        album
    );
    assert!(parts[0].media_group_id().is_some());
    assert_eq!(parts[0].media_group_id(), parts[1].media_group_id());
    assert_eq!(
        (parts[0].caption(), parts[1].caption()),
        (Some("Two"), None)
    );

    let input = |name: &'static str| InputFile::memory(picture.clone()).file_name(name);
    let to = ChatId(ada);
    let sent = bot
        .send_document(to, input("a.txt"))
        .caption("A file")
        .await
        .unwrap();
    assert_eq!(sent.document().unwrap().file_name.as_deref(), Some("a.txt"));
    bot.send_photo(to, input("b.jpg")).await.unwrap();
    bot.send_audio(to, input("c.mp3")).await.unwrap();
    bot.send_voice(to, input("d.ogg")).await.unwrap();
    bot.send_video(to, input("e.mp4")).await.unwrap();
    let stands = api.messages_in(ada, None);
    let kinds = [
        ("document", "a.txt"),
        ("photo", "b.jpg"),
        ("audio", "c.mp3"),
        ("voice", "d.ogg"),
        ("video", "e.mp4"),
    ];
    for (stands, (kind, name)) in stands.iter().zip(kinds) {
        assert!(
            stands.file.as_ref().unwrap().is(kind, name, &picture),
            "{stands:?}"
        );
    }
    assert_eq!(stands[0].text, "A file");
    let long = bot
        .send_document(to, input("a.txt"))
        .caption("c".repeat(1025))
        .await;
    assert!(
        long.unwrap_err()
            .to_string()
            .contains("message caption is too long")
    );
    let no_picture = InputFile::memory("text").file_name("b.jpg");
    assert!(bot.send_photo(to, no_picture).await.is_err());
}

#[tokio::test]
async fn updates_come_as_from_the_vendor() {
    let api = BotApi::start();
    let bot = bot(&api);
    let ada = api.private(&ADA);
    let channel = api.channel("News", "hermes_news");
    let long_ago = Duration::from_secs(86_400);
    // They come again until they are confirmed.
    let first = api.writes(ada, &ADA).ago(long_ago).text("yesterday").send();
    api.edits(ada, first, "the day before");
    let seen = updates(&bot, 0).await;
    assert_eq!(updates(&bot, 0).await, seen);
    assert_eq!(bot.get_updates().limit(1).await.unwrap(), seen[..1]);
    assert_eq!(updates(&bot, seen[0].id.0).await, seen[1..]);
    assert_eq!(api.unconfirmed(), 1);
    let UpdateKind::EditedMessage(edited) = &seen[1].kind else {
        panic!("{seen:?}");
    };
    assert_eq!(edited.text(), Some("the day before"));
    assert!((now() - edited.date.timestamp()).abs_diff(86_400) < 60);

    // Later ones before earlier ones, the same twice, and what nobody knows.
    let said = api.backwards(|api| ["one", "two"].map(|text| api.says(ada, None, &ADA, text)));
    let seen = updates(&bot, seen[1].id.0).await;
    let ids: Vec<i64> = seen
        .iter()
        .map(|u| i64::from(message(u.clone()).id.0))
        .collect();
    assert_eq!(ids, [said[1], said[0]]);
    assert!(seen[0].id < seen[1].id);
    bot.get_updates()
        .offset(seen[1].id.as_offset())
        .await
        .unwrap();
    api.repeat_last();
    assert_eq!(updates(&bot, seen[1].id.0).await, seen[1..]);
    api.something_new();
    let strange = next(&bot).await;
    assert!(matches!(strange.kind, UpdateKind::Error(_)), "{strange:?}");
    api.says(channel, None, &ADA, "a post");
    assert!(matches!(next(&bot).await.kind, UpdateKind::ChannelPost(_)));
    let group = api.group("Friends");
    api.joins(group, &BEN);
    assert!(message(next(&bot).await).new_chat_members().is_some());

    // Only what is wanted, from then on.
    bot.get_updates()
        .allowed_updates([AllowedUpdate::Message])
        .await
        .unwrap();
    api.block(&ADA);
    api.unblock(&ADA);
    api.says(ada, None, &ADA, "words");
    message(next(&bot).await);

    api.webhook("https://elsewhere.example/");
    let taken = bot.get_updates().await.unwrap_err();
    assert!(
        taken.to_string().contains("while webhook is active"),
        "{taken}"
    );
    api.says(ada, None, &ADA, "lost");
    let params = json!({"drop_pending_updates": true});
    done(&api, "deleteWebhook", params).await;
    assert_eq!(bot.get_updates().await.unwrap(), []);
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}
