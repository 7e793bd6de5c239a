(ns arrowwood.page-test
  "docs/tasks/clojure.md: pasted into a REPL, and what it prints compared."
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

(defn- words [text] (str/join " " (str/split (str/trim text) #"\s+")))

(defn- agrees?
  "Whether a text was printed; spaces may differ, and … stands for anything."
  [printed expected]
  (re-matches (re-pattern (str "(?s)" (str/replace (Pattern/quote (words expected)) "…" "\\E.*?\\Q"))) (words printed)))

(defn- have-r? [] (zero? (:exit (shell/sh "sh" "-c" "command -v Rscript && pkg-config --exists arrowwood"))))

(deftest the-page
  (let [docs (io/file (System/getProperty "arrowwood.docs"))
        folder (programs/folder)
        python (programs/python)
        tmd (System/getenv "ARROWWOOD_TMD_CP")
        have (remove nil? [(when tmd "tech.ml.dataset") (when python "Python") (when (have-r?) "R")])
        java (str (io/file (System/getProperty "java.home") "bin" "java"))
        path (System/getenv "PATH")
        _ (Files/createSymbolicLink (.toPath (io/file folder "examples"))
                                    (.toPath (.getCanonicalFile (io/file docs ".." "examples")))
                                    (make-array FileAttribute 0))
        {:keys [exit out err]}
        (apply shell/sh
               (concat [java "--enable-native-access=ALL-UNNAMED" "-Dstdout.encoding=UTF-8"]
                       (when-let [library (System/getProperty "arrowwood.library")] [(str "-Darrowwood.library=" library)])
                       ["-cp" (str/join File/pathSeparator (remove nil? [(System/getProperty "java.class.path") tmd]))
                        "clojure.main" "-m" "arrowwood.session" (str (io/file docs "tasks" "clojure.md"))]
                       have
                       [:dir folder
                        :env (assoc (into {} (System/getenv))
                                    "PATH" (if python (str (.getParent (io/file python)) ":" path) path))]))]
    (.delete (io/file folder "examples"))
    (is (zero? exit) (str out err))
    (let [results (edn/read-string out)]
      (doseq [{:keys [line expected printed left-out]} results]
        (if left-out
          (println (str "test-jvm: docs/tasks/clojure.md:" line " left out: there is no " left-out " here"))
          (is (agrees? printed expected) (str "docs/tasks/clojure.md:" line "\n" printed))))
      (is (<= 7 (count (remove :left-out results)))))))
