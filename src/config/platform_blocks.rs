//! Merges the blocks that Hermes' files have for a platform, as Hermes does.

use std::path::Path;

use serde_json::Value as Json;

use super::descriptor::PlatformDescriptor;
use super::layers::Origin;
use super::value::{Kind, Raw, Value};

/// One of Hermes' files.
#[derive(Clone, Copy)]
pub(super) struct Tree<'a> {
    pub(super) path: &'a Path,
    pub(super) root: &'a Json,
}

impl<'a> Tree<'a> {
    /// The node at a dotted path, including null.
    pub(super) fn at(self, dotted: &str) -> Option<&'a Json> {
        walk(self.root, dotted)
    }

    pub(super) fn origin(self, key: String) -> Origin {
        let path = self.path.to_owned();
        Origin::Hermes { path, key }
    }

    fn block(self, at: String) -> Option<Block<'a>> {
        let node = self.at(&at).filter(|node| node.is_object())?;
        let tree = self;
        Some(Block { tree, at, node })
    }
}

/// Keys of `extra` that Hermes reads only from the merged blocks.
const MERGED_ONLY: [&str; 5] = [
    "allow_from",
    "dm_policy",
    "group_policy",
    "require_mention",
    "unauthorized_dm_behavior",
];

struct Block<'a> {
    tree: Tree<'a>,
    at: String,
    node: &'a Json,
}

impl<'a> Block<'a> {
    fn get(&self, name: &str) -> Option<(&'a Json, Origin)> {
        let origin = || self.tree.origin(format!("{}.{name}", self.at));
        walk(self.node, name).map(|node| (node, origin()))
    }
}

pub(super) struct Blocks<'a> {
    yaml: Tree<'a>,
    /// `<platform>:` at the top of `config.yaml`, for `enabled` and the shared keys.
    top: Option<Block<'a>>,
    /// The block below `gateway.platforms` or `platforms`. It has the shared keys if there is no block at the top.
    nested: Option<Block<'a>>,
    /// The blocks that have all other keys, the strongest first.
    merged: Vec<Block<'a>>,
    /// Whether `extra` of the block with the shared keys counts.
    shared_has_extra: bool,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(
        descriptor: &PlatformDescriptor,
        yaml: Tree<'a>,
        json: Tree<'a>,
    ) -> Blocks<'a> {
        let platform = descriptor.name;
        let (in_platforms, in_gateway) = (
            format!("platforms.{platform}"),
            format!("gateway.platforms.{platform}"),
        );
        let merged = [
            yaml.block(format!("gateway.{platform}")),
            yaml.block(in_platforms.clone()),
            yaml.block(in_gateway.clone()),
            json.block(in_platforms.clone()),
        ];
        Blocks {
            yaml,
            top: yaml.block(platform.to_owned()),
            nested: yaml.block(in_gateway).or_else(|| yaml.block(in_platforms)),
            merged: merged.into_iter().flatten().collect(),
            shared_has_extra: descriptor.shared_block_has_extra,
        }
    }

    /// The node of a setting in the merged blocks, including null. A name that begins with `/` is a path from the top
    /// of the file.
    pub(super) fn find(&self, name: &str) -> Option<(&'a Json, Origin)> {
        if let Some(name) = name.strip_prefix('/') {
            let node = self.yaml.at(name).filter(|node| !node.is_null())?;
            return Some((node, self.yaml.origin(name.to_owned())));
        }
        match name.split_once('.').unwrap_or((name, "")) {
            ("enabled", _) => {
                let top = self.top.as_ref().and_then(|block| block.get(name));
                top.or_else(|| self.enabled())
            }
            ("extra", key) => self.extra(name, key),
            (own @ ("token" | "home_channel"), _) => {
                let mut merged = self.merged.iter();
                merged.find(|block| block.get(own).is_some())?.get(name)
            }
            _ => self.shared()?.get(name),
        }
    }

    fn shared(&self) -> Option<&Block<'a>> {
        self.top.as_ref().or(self.nested.as_ref())
    }

    /// `enabled: false` in `gateway.json` counts as unset: a token in the environment still switches the platform on.
    fn enabled(&self) -> Option<(&'a Json, Origin)> {
        let found = self.merged.iter().find_map(|block| block.get("enabled"))?;
        let is_yaml = matches!(&found.1, Origin::Hermes { path, .. } if path == self.yaml.path);
        (is_yaml || is_yes(found.0)).then_some(found)
    }

    fn extra(&self, name: &str, key: &str) -> Option<(&'a Json, Origin)> {
        let own = self
            .shared()
            .filter(|_| self.shared_has_extra && !MERGED_ONLY.contains(&key))
            .and_then(|block| block.get(name));
        own.or_else(|| self.merged.iter().find_map(|block| block.get(name)))
    }
}

fn is_yes(node: &Json) -> bool {
    let raw = match node {
        Json::Bool(flag) => Raw::Flag(*flag),
        Json::String(text) => Raw::Text(text.clone()),
        Json::Number(number) => return number.as_f64() != Some(0.0),
        _ => return false,
    };
    Kind::Flag.parse(&raw, true) == Some(Value::Flag(true))
}

fn walk<'a>(node: &'a Json, dotted: &str) -> Option<&'a Json> {
    dotted
        .split('.')
        .try_fold(node, |node, name| node.get(name))
}
