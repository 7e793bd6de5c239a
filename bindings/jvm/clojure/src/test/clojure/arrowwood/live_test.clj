(ns arrowwood.live-test
  "Tests that followers in Java, Clojure, C and Go each get every row of a table once while Python writes it."
  (:require
   [arrowwood.core :as aw]
   [arrowwood.programs :as programs]
   [clojure.java.io :as io]
   [clojure.java.shell :as shell]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]])
  (:import
   (dev.arrowwood Arrowwood Dataset Follow ReadOption)
   (java.io File)
   (java.lang ProcessBuilder$Redirect)
   (java.time Duration)
   (java.util List)
   (java.util.concurrent TimeUnit)))

(def ^:private row-count 20000)

(def ^:private middle-row
  "Where one of the followers starts."
  7000)

(def ^:private writer-script
  "Writes rows up to each number that it reads from standard input."
  "
import sys
import arrowwood as aw
import pyarrow as pa

with aw.writer(sys.argv[1], pa.schema([pa.field('n', pa.int64(), nullable=False)]), segment_rows=3000) as table:
    table.commit()
    print('ready', flush=True)
    for line in sys.stdin:
        for start in range(table.rows, int(line), 100):
            for n in range(start, start + 100):
                table.append_row(n=n)
            table.commit(durable=start % 5000 == 0, positions={'n': start})
")

(defn- start-process ^Process [& command]
  (.start (doto (ProcessBuilder. ^List (mapv str command))
            (.redirectError ProcessBuilder$Redirect/INHERIT))))

(defn- assert-succeeds [^Process process description]
  (is (.waitFor process programs/timeout-ms TimeUnit/MILLISECONDS) description)
  (is (zero? (.exitValue process)) description))

(defn- report-left-out [missing]
  (println (str "test-jvm: the live table is not followed by " missing ": it is not here"))
  nil)

(defn- shell-succeeds? [command] (zero? (:exit (shell/sh "sh" "-c" command))))

(defn- have-commands? [& names]
  (shell-succeeds? (str/join " && " (map #(str "command -v " %) names))))

(defn- have-c-library? [] (shell-succeeds? "pkg-config --exists arrowwood"))

(defn- c-library-folder [] (str/trim (programs/run "pkg-config" "--variable=libdir" "arrowwood")))

(defn- sources-folder [] (io/file (System/getProperty "arrowwood.docs") ".." "tests" "capi"))

;; ---- followers ----

(defn- compile-c-follower
  "Returns the command that follows a table from C, or nil."
  [folder]
  (if (and (have-c-library?) (have-commands? "cc"))
    (let [source (io/file (sources-folder) "c" "follow.c")
          program (io/file folder "follow-c")]
      (programs/run "sh" "-c" (str "cc -std=c99 '" source "' $(pkg-config --cflags --libs arrowwood)"
                                   " -Wl,-rpath,'" (c-library-folder) "' -lm -lpthread -o '" program "'"))
      [program])
    (report-left-out "C")))

(defn- compile-go-follower
  "Returns the command that follows a table from Go, or nil."
  [folder]
  (if (and (have-c-library?) (have-commands? "cc" "go"))
    (let [program (io/file folder "follow-go")]
      (programs/run "sh" "-c" (str "cd '" (io/file (sources-folder) "go") "' && CGO_LDFLAGS_ALLOW='-Wl,-rpath.*'"
                                   " CGO_LDFLAGS='-Wl,-rpath," (c-library-folder) "' go build -o '" program "' ."))
      [program "follow"])
    (report-left-out "Go")))

;; Each function below follows a table in another thread, and returns a future of the numbers. The atom `received` counts
;; the rows on the way.

(defn- follow-with-program [command table]
  (let [process (apply start-process (concat command [table row-count]))]
    (future
      (let [output (slurp (.getInputStream process))]
        (assert-succeeds process (str (first command)))
        (mapv parse-long (str/split-lines (str/trim output)))))))

(defn- numbers-of [^Dataset rows]
  (.toArray (.stream (.asLong (.column rows "n")))))

(defn- follow-in-java [^File table received]
  (future
    (with-open [^Follow follow (.follow (Arrowwood/open (.toPath table) (make-array ReadOption 0)) 0)]
      (loop [numbers []]
        (reset! received (count numbers))
        (let [rows (when (< (count numbers) row-count)
                     (.orElse (.next follow (Duration/ofMillis programs/timeout-ms)) nil))]
          (if rows
            (recur (into numbers (numbers-of rows)))
            numbers))))))

(defn- follow-in-clojure [table from received]
  (future
    ;; A follower can't start behind the end of the table.
    (programs/until (str "the table has " from " rows") #(<= (long from) (aw/row-count (aw/open table))))
    (with-open [follower (aw/follow table {:from from :timeout-ms programs/timeout-ms})]
      (reduce (fn [numbers rows]
                (let [numbers (into numbers (:n rows))]
                  (reset! received (count numbers))
                  (if (= (dec (long row-count)) (peek numbers)) (reduced numbers) numbers)))
              []
              follower))))

;; ---- the test ----

(defn- write-rows
  "Has the writer commit rows, 1,000 at a time, and waits until the followers in this process have received them. Other
  followers sometimes lag, and sometimes wait for rows."
  [^Process writer followers received-by-name]
  (with-open [in (io/writer (.getOutputStream writer))]
    (doseq [end (range 1000 (inc row-count) 1000)]
      (.write in (str end "\n"))
      (.flush in)
      (doseq [[name received] received-by-name]
        (programs/until (str name " has received " end " rows")
                        #(or (<= (long end) (long @received)) (realized? (followers name))))))))

(deftest table-of-python-writer-is-followed-in-all-languages
  (if-let [python (programs/python)]
    (let [folder (programs/temp-folder)
          table (io/file folder "live")
          commands (into {}
                         (remove (comp nil? val))
                         {"C" (compile-c-follower folder) "Go" (compile-go-follower folder)})
          script (doto (io/file folder "writer.py") (spit writer-script))
          writer (start-process python script table)
          output (io/reader (.getInputStream writer))]
      (is (= "ready" (.readLine output)))
      (let [received {"Java" (atom 0) "Clojure" (atom 0)}
            followers (merge {"Java" (follow-in-java table (received "Java"))
                              "Clojure" (follow-in-clojure table 0 (received "Clojure"))
                              "Clojure, later" (follow-in-clojure table middle-row (atom 0))}
                             (update-vals commands #(follow-with-program % table)))]
        (write-rows writer followers received)
        (doseq [[name numbers] followers]
          (let [start (if (= "Clojure, later" name) middle-row 0)]
            (is (= (range start row-count)
                   (programs/await-value (str name " has received all rows") numbers))
                name)))
        (assert-succeeds writer "the writer")
        ;; The position of the last commit, of 100 rows.
        (is (= {"n" (- (long row-count) 100)} (aw/positions (aw/open table))))))
    (is (nil? (report-left-out "anyone; Python, which writes it,")))))
