//! Files: how they are uploaded, shared and fetched.

use axum::body::Bytes;
use serde_json::{Value, json};

use super::errors::{self, Answered, ApiError};
use super::post::Draft;
use super::request::Call;
use super::world::{ChannelKind, FileState, StoredFile, World, seconds};
use crate::support::fake::{Answer, Done, Refusal};

/// A file as Slack shows it.
pub fn value(world: &World, id: &str) -> Value {
    let file = &world.files[id];
    let kind = file.name.rsplit_once('.').map_or("text", |(_, end)| end);
    let mimetype = match kind {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "pdf" => "application/pdf",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        "txt" | "text" | "md" => "text/plain",
        "json" => "application/json",
        _ => "application/octet-stream",
    };
    let base = format!("{}/files-pri/{}-{id}", world.url, file.team);
    json!({
        "id": id,
        "created": file.created,
        "timestamp": file.created,
        "name": file.name,
        "title": file.title,
        "mimetype": mimetype,
        "filetype": kind,
        "pretty_type": kind.to_uppercase(),
        "user": file.user,
        "user_team": file.team,
        "editable": false,
        "size": file.bytes.len(),
        "mode": "hosted",
        "is_external": false,
        "external_type": "",
        "is_public": true,
        "public_url_shared": false,
        "display_as_bot": false,
        "username": "",
        "url_private": format!("{base}/{}", file.name),
        "url_private_download": format!("{base}/download/{}", file.name),
        "permalink": format!("https://work.slack.com/files/{}/{id}/{}", file.user, file.name),
        "file_access": "visible",
    })
}

impl World {
    /// A file that somebody has uploaded.
    pub fn add_file(&mut self, team: &str, user: &str, name: &str, bytes: Bytes) -> String {
        let id = self.new_id('F');
        let file = StoredFile {
            team: team.to_owned(),
            user: user.to_owned(),
            name: name.to_owned(),
            title: name.to_owned(),
            length: bytes.len(),
            bytes,
            state: FileState::Complete,
            created: seconds(),
        };
        self.files.insert(id.clone(), file);
        id
    }
}

pub fn get_upload_url(world: &mut World, call: &Call) -> Answered {
    let name = call.filled("filename");
    let name = name.ok_or_else(|| ApiError::missing("filename"))?;
    let length = call.need("length")?;
    let length: usize = length
        .parse()
        .map_err(|_| ApiError::invalid("length", "must be an integer"))?;
    if length == 0 {
        return Err("missing_argument".into());
    }
    if length > super::request::LARGEST {
        return Err("file_upload_size_restricted".into());
    }
    let bot = world.teams[&call.team].bot_user.clone();
    let id = world.add_file(&call.team, &bot, &name, Bytes::new());
    let file = world.files.get_mut(&id).expect("added above");
    file.length = length;
    file.state = FileState::Expected;
    let url = format!("{}/upload/v1/{id}", world.url);
    Ok(json!({"upload_url": url, "file_id": id}))
}

/// The upload itself, as raw bytes or as the file of a form. It needs no token.
pub fn upload(world: &mut World, id: &str, bytes: Bytes) -> Result<Done, Refusal> {
    let file = world.files.get_mut(id);
    let file = file.filter(|file| file.state == FileState::Expected);
    let file = file.ok_or_else(|| errors::refuse(404, "upload_ticket_not_found"))?;
    if file.length != bytes.len() {
        return Err(errors::refuse(400, "length_mismatch"));
    }
    let size = bytes.len();
    file.bytes = bytes;
    file.state = FileState::Uploaded;
    Ok(Done {
        result: json!(id),
        answer: Answer::new(200, "text/plain; charset=utf-8", format!("OK - {size}")),
    })
}

pub fn complete_upload(world: &mut World, call: &Call) -> Answered {
    let files = call.json("files").ok().flatten();
    let files = files.and_then(|files| files.as_array().cloned());
    let files = files.filter(|files| !files.is_empty());
    let files = files.ok_or_else(|| ApiError::invalid("files", "must be a list of files"))?;
    let mut ids = Vec::new();
    for file in &files {
        let id = file["id"].as_str();
        let id = id.ok_or_else(|| ApiError::missing("id"))?;
        let stored = world.files.get(id).filter(|file| file.team == call.team);
        match stored.map(|file| file.state) {
            Some(FileState::Uploaded) => ids.push((id.to_owned(), file["title"].as_str())),
            _ => return Err("file_not_found".into()),
        }
    }
    let channels = call.filled("channels");
    let channels = channels.iter().flat_map(|list| list.split(','));
    let channels: Vec<String> = call
        .filled("channel_id")
        .into_iter()
        .chain(channels.map(|id| id.trim().to_owned()))
        .collect();
    if channels.len() > 100 {
        return Err("channels_limit_exceeded".into());
    }
    for channel in &channels {
        let channel = world.visible(call, channel)?;
        world.may_post(call, &channel)?;
    }
    for (id, title) in &ids {
        let file = world.files.get_mut(id).expect("found above");
        file.state = FileState::Complete;
        if let Some(title) = title {
            (*title).clone_into(&mut file.title);
        }
    }
    let ids: Vec<String> = ids.into_iter().map(|(id, _)| id).collect();
    for channel in &channels {
        let draft = Draft {
            author: world.teams[&call.team].bot_user.clone(),
            by_bot: true,
            text: call.text("initial_comment").unwrap_or_default(),
            thread_ts: call.filled("thread_ts"),
            files: ids.clone(),
            ..Draft::default()
        };
        world.post(channel, draft);
    }
    let shown: Vec<Value> = ids.iter().map(|id| value(world, id)).collect();
    Ok(json!({"files": shown}))
}

pub fn info(world: &World, call: &Call) -> Answered {
    let id = call.need("file")?;
    let file = world.files.get(&id).filter(|file| file.team == call.team);
    match file.map(|file| file.state) {
        Some(FileState::Complete) => {}
        Some(FileState::Deleted) => return Err("file_deleted".into()),
        _ => return Err("file_not_found".into()),
    }
    let mut shown = value(world, &id);
    let mut shares = json!({});
    for channel in world.channels.values() {
        let group = match channel.kind {
            ChannelKind::Public => "public",
            _ => "private",
        };
        for (ts, message) in &channel.messages {
            let files = message.value["files"].as_array().into_iter().flatten();
            if files.into_iter().any(|file| file["id"] == id) {
                let mut share = json!({"ts": ts, "channel_name": channel.name});
                if let Some(root) = message.value.get("thread_ts") {
                    share["thread_ts"] = root.clone();
                }
                shares[group][&channel.id] = json!([share]);
            }
        }
    }
    shown["shares"] = shares;
    Ok(json!({"file": shown, "comments": [], "response_metadata": {"next_cursor": ""}}))
}

/// A page for people in place of the file: Slack sends it with status 200 to whom it does not know.
const LOGIN_PAGE: &str = "<!DOCTYPE html><html lang=\"en-US\"><head><title>Sign in | Slack</title></head>\
    <body><form action=\"/\" method=\"post\"></form></body></html>";

/// Fetches a file by the path of its address.
pub fn fetch(world: &World, path: &str, token: Option<&str>) -> Result<Done, Refusal> {
    let key = path.trim_start_matches("/files-pri/");
    let key = key.split('/').next().unwrap_or_default();
    let (team, id) = key.split_once('-').unwrap_or_default();
    let permitted = world.may_read_files(token) == Some(team);
    if !permitted {
        return Ok(Done {
            result: json!("login page"),
            answer: Answer::new(200, "text/html; charset=utf-8", LOGIN_PAGE),
        });
    }
    let file = world.files.get(id);
    let file = file.filter(|file| file.state == FileState::Complete);
    let file = file.ok_or_else(|| errors::refuse(404, "file_not_found"))?;
    let mimetype = value(world, id)["mimetype"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    Ok(Done {
        result: json!(id),
        answer: Answer::new(200, &mimetype, file.bytes.clone()),
    })
}
