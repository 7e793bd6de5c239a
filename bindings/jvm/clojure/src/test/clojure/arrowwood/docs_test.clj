(ns arrowwood.docs-test
  "Tests that the code of docs/tasks/clojure.md prints what the page shows."
  (:require
   [arrowwood.programs :as programs]
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.java.shell :as shell]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]])
  (:import
   (java.io File)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)
   (java.util.regex Pattern)))

(defn- normalize-space [text] (str/join " " (str/split (str/trim text) #"\s+")))

(defn- matches?
  "Returns true if a text was printed as expected, where … stands for any text and all space is alike."
  [expected printed]
  (let [pattern (str/replace (Pattern/quote (normalize-space expected)) "…" "\\E.*?\\Q")]
    (re-matches (re-pattern (str "(?s)" pattern)) (normalize-space printed))))

(defn- can-run-r? []
  (zero? (:exit (shell/sh "sh" "-c" "command -v Rscript && pkg-config --exists arrowwood"))))

(defn- link-examples
  "Creates a link to the examples, by whose relative path the page opens files."
  ^File [folder docs]
  (let [link (io/file folder "examples")
        target (.getCanonicalFile (io/file docs ".." "examples"))]
    (Files/createSymbolicLink (.toPath link) (.toPath target) (make-array FileAttribute 0))
    link))

(defn- run-session
  "Runs arrowwood.session on the page in another JVM, in a folder."
  [page folder]
  (let [python (programs/python)
        tmd-class-path (System/getenv "ARROWWOOD_TMD_CP")
        available (remove nil? [(when tmd-class-path "tech.ml.dataset")
                                (when python "Python")
                                (when (can-run-r?) "R")])
        class-path (str/join File/pathSeparator
                             (remove nil? [(System/getProperty "java.class.path") tmd-class-path]))
        library (System/getProperty "arrowwood.library")
        command (concat [(str (io/file (System/getProperty "java.home") "bin" "java"))
                         "--enable-native-access=ALL-UNNAMED"
                         "-Dstdout.encoding=UTF-8"]
                        (when library [(str "-Darrowwood.library=" library)])
                        ["-cp" class-path "clojure.main" "-m" "arrowwood.session" (str page)]
                        available)
        path (System/getenv "PATH")
        env (assoc (into {} (System/getenv))
                   "PATH" (if python (str (.getParent (io/file python)) ":" path) path))]
    (apply shell/sh (concat command [:dir folder :env env]))))

(deftest code-of-the-page-prints-what-the-page-shows
  (let [docs (io/file (System/getProperty "arrowwood.docs"))
        folder (programs/temp-folder)
        examples (link-examples folder docs)
        {:keys [exit out err]} (run-session (io/file docs "tasks" "clojure.md") folder)]
    ;; Deleting the folder later must not follow the link.
    (.delete examples)
    (is (zero? exit) (str out err))
    (let [results (edn/read-string out)]
      (doseq [{:keys [line expected printed left-out]} results]
        (if left-out
          (println (str "test-jvm: docs/tasks/clojure.md:" line " left out: there is no " left-out " here"))
          (is (matches? expected printed) (str "docs/tasks/clojure.md:" line "\n" printed))))
      (is (<= 7 (count (remove :left-out results)))))))
