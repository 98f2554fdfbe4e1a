//! Where sets are published, in files that can be read as they are.
//!
//! Every address is one that its `page` lists: the files of one revision, which does not change any more.
//! Sets whose publishers give them in other forms only (pickles, archives) have no address here, but a word
//! on where they are.

use super::names::Name;

/// Where a set is published.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The name of the set.
    pub set: &'static str,
    /// The public page that lists the files, or says what there is instead.
    pub page: &'static str,
    /// Where the files are; empty if none can be read as it is.
    pub urls: &'static [&'static str],
    /// What is to know about it.
    pub remark: &'static str,
}

impl Source {
    /// The files: the name to keep one under, and its address.
    pub fn files(&self) -> impl Iterator<Item = (String, &'static str)> {
        let name = |url: &str| Some(Name::parse(url.rsplit('/').next()?)?.plain());
        self.urls.iter().filter_map(move |&url| Some((name(url)?, url)))
    }
}

/// The source of the set called `name`; nothing for sets that are generated.
pub fn of(name: &str) -> Option<&'static Source> {
    ALL.iter().find(|source| source.set == name)
}

/// The form of the block models.
const PICKLES: &str =
    "published as a pickle of DGL graphs, and by PyTorch Geometric as `GNNBenchmarkDataset`";

/// Every set that is read from files, in the order of the documentation.
pub const ALL: &[Source] = &[
    Source {
        set: "zinc",
        page: "https://github.com/graphdeeplearning/benchmarking-gnns",
        urls: &[],
        remark: "the 12,000 molecules are published as a pickle of DGL graphs, and by PyTorch Geometric as \
                 `ZINC(subset=True)`; graphs-datasets/ZINC on Hugging Face has the columns of this program, but \
                 holds the whole set of 220,011 training molecules",
    },
    Source {
        set: "peptides-func",
        page: "https://huggingface.co/datasets/LRGB/peptides-functional",
        urls: &[],
        remark: "published as files of PyTorch, and by PyTorch Geometric as `LRGBDataset`",
    },
    Source {
        set: "peptides-struct",
        page: "https://huggingface.co/datasets/LRGB/peptides-structural",
        urls: &[],
        remark: "published as files of PyTorch, and by PyTorch Geometric as `LRGBDataset`",
    },
    Source {
        set: "mnist",
        page: "https://huggingface.co/datasets/graphs-datasets/MNIST/tree/8aa98e62b05c881c9e22005fa662d72f0426ec7f/data",
        urls: &[
            "https://huggingface.co/datasets/graphs-datasets/MNIST/resolve/8aa98e62b05c881c9e22005fa662d72f0426ec7f/data/train-00000-of-00002-383e1d92b8a7a8c2.parquet",
            "https://huggingface.co/datasets/graphs-datasets/MNIST/resolve/8aa98e62b05c881c9e22005fa662d72f0426ec7f/data/train-00001-of-00002-49bf5c1e819f1b32.parquet",
            "https://huggingface.co/datasets/graphs-datasets/MNIST/resolve/8aa98e62b05c881c9e22005fa662d72f0426ec7f/data/val-00000-of-00001-968e1b137b2d7a0f.parquet",
            "https://huggingface.co/datasets/graphs-datasets/MNIST/resolve/8aa98e62b05c881c9e22005fa662d72f0426ec7f/data/test-00000-of-00001-c6f70f06056769bf.parquet",
        ],
        remark: "the graphs of PyTorch Geometric's `GNNBenchmarkDataset`, 126 MB",
    },
    Source {
        set: "cifar10",
        page: "https://huggingface.co/datasets/graphs-datasets/CIFAR10/tree/c3d5c7aa3321c405b2818dc5f89125a84e28c7e4",
        urls: &[
            "https://huggingface.co/datasets/graphs-datasets/CIFAR10/resolve/c3d5c7aa3321c405b2818dc5f89125a84e28c7e4/data/train-00000-of-00003-49cde98cb7bd789b.parquet",
            "https://huggingface.co/datasets/graphs-datasets/CIFAR10/resolve/c3d5c7aa3321c405b2818dc5f89125a84e28c7e4/data/train-00001-of-00003-36b922402e91bbb7.parquet",
            "https://huggingface.co/datasets/graphs-datasets/CIFAR10/resolve/c3d5c7aa3321c405b2818dc5f89125a84e28c7e4/data/train-00002-of-00003-84ba0e24357d89bb.parquet",
            "https://huggingface.co/datasets/graphs-datasets/CIFAR10/resolve/c3d5c7aa3321c405b2818dc5f89125a84e28c7e4/data/val-00000-of-00001-6795883c8e47063e.parquet",
            "https://huggingface.co/datasets/graphs-datasets/CIFAR10/resolve/c3d5c7aa3321c405b2818dc5f89125a84e28c7e4/data/test-00000-of-00001-20d3af4aff013952.parquet",
        ],
        remark: "the graphs of PyTorch Geometric's `GNNBenchmarkDataset`, 217 MB",
    },
    Source {
        set: "pattern",
        page: "https://github.com/graphdeeplearning/benchmarking-gnns",
        urls: &[],
        remark: PICKLES,
    },
    Source {
        set: "cluster",
        page: "https://github.com/graphdeeplearning/benchmarking-gnns",
        urls: &[],
        remark: PICKLES,
    },
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::names;
    use super::*;

    #[test]
    fn every_set_of_files_has_one_source() {
        let of_files = super::super::ALL.iter().map(|set| set.entry()).filter(|e| !e.generated);
        let expected: Vec<&str> = of_files.map(|entry| entry.name).collect();
        assert_eq!(ALL.iter().map(|source| source.set).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn addresses_are_unique_encrypted_and_cited() {
        let mut seen = HashSet::new();
        for source in ALL {
            assert!(source.page.starts_with("https://") && !source.remark.is_empty());
            // Nothing that changes: the revision of the page is that of the files.
            let repository = source.page.split("/tree/").next().unwrap();
            let revision = source.page.split("/tree/").nth(1).map(|r| &r[..40]);
            for &url in source.urls {
                assert!(seen.insert(url), "{url} twice");
                let revision = revision.expect("files are those of a revision");
                assert!(revision.bytes().all(|b| b.is_ascii_hexdigit()), "{revision}");
                let inside = format!("{repository}/resolve/{revision}/data/");
                assert!(url.starts_with(&inside), "{url}");
                assert!(
                    url.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:".contains(&b)),
                    "{url}"
                );
            }
        }
    }

    #[test]
    fn files_make_whole_splits() {
        for source in ALL.iter().filter(|source| !source.urls.is_empty()) {
            let files: Vec<_> = source.files().map(|(name, _)| name.into()).collect();
            assert_eq!(files.len(), source.urls.len());
            let splits = names::group(files, source.set).unwrap();
            assert_eq!(splits.iter().flatten().count(), source.urls.len());
        }
    }
}
